// Package scenarios holds the scenarios that come with the program: for controllers of
// Jobs, Deployments, ReplicaSets, StatefulSets, DaemonSets and CloneSets, and one to begin with for
// an operator with a kind of its own.
//
// Each has one client without a command, so that `rehearse test job -- ./my-controller`
// is a whole rehearsal. They are files as any user writes them; package scenario reads
// and checks them, and a test here plays that part.
//
// It stands on floor 1 and imports nothing of ours.
package scenarios

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

// FS holds the files, NAME.yaml each.
//
//go:embed *.yaml
var FS embed.FS

const ending = ".yaml"

// Names of the scenarios, sorted.
func Names() (names []string) {
	entries, _ := fs.ReadDir(FS, ".")
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ending))
	}
	return names
}

// Read is the text of a scenario.
func Read(name string) ([]byte, error) {
	data, err := FS.ReadFile(name + ending)
	if err != nil {
		return nil, fmt.Errorf("%s: there is no such scenario; there are %s", name, strings.Join(Names(), ", "))
	}
	return data, nil
}
