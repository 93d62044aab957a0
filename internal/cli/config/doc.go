// Package config reads the files of 'rehearse up --config' and prints the effective configuration of up.
//
// A file contains an object of kind Cluster (rehearse-k8s.github.io/v1alpha1), which has one field for each flag of up, and
// may contain stages and objects that configure kubelet endpoints. Decoding is strict: an error names the file, the line and
// the field. From KWOK's configuration files it takes the options that up has too; warnings name the rest.
//
// The package reads one file and starts nothing. It matches fields and flags by their names, without regard to case and
// dashes, so that a new flag needs only a new field.
//
// Floor: F4, a part of internal/cli.
package config
