// Package stage has the commands for authors of stages: stage lint, stage explain and stage play.
//
// lint prints the findings of the public package stage. explain reads an object and what its stages depend on, from a
// file or a cluster, and prints which stage comes next, why and when. play prints the lifecycle of an object in virtual
// time, without a cluster. Each prints text for people, and JSON or YAML for programs.
//
// It decides nothing about stages: the public package stage does.
//
// Floor: F4, a part of internal/cli.
package stage
