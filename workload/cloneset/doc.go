// Package cloneset decides what is next for a CloneSet (apps.kruise.io).
package cloneset
