package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// Package is what is used of an entry of `go list -json`.
type Package struct {
	ImportPath   string
	Dir          string
	Name         string
	GoFiles      []string
	CgoFiles     []string
	IgnoredFiles []string `json:"IgnoredGoFiles"`
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
}

// ban is an import that some packages must do without.
type ban struct {
	prefix string // of the import path, at a path boundary
	reason string
}

var (
	clients = []ban{
		{"k8s.io/client-go", "no client below F3: the seam is HTTP"},
		{"sigs.k8s.io/controller-runtime", "no client below F3: the seam is HTTP"},
		{"k8s.io/kubernetes", "upstream's programs are put together in apiserver and cluster"},
	}
	logs = []ban{
		{"log", "F0 to F2 do not log: they return values, and whoever calls them decides what is worth a line"},
		{"log/slog", "F0 to F2 do not log: they return values, and whoever calls them decides what is worth a line"},
		{"k8s.io/klog", "F0 to F2 do not log: they return values, and whoever calls them decides what is worth a line"},
		{"github.com/go-logr", "F0 to F2 do not log: they return values, and whoever calls them decides what is worth a line"},
	}
	commandLine = []ban{
		{"github.com/spf13/cobra", "flags and commands belong to internal/cli"},
		{"flag", "flags and commands belong to internal/cli"},
		{"os/exec", "processes belong to F3 and above"},
		{"os/signal", "processes belong to F3 and above"},
	}
	network = []ban{{"net", "no network on F0 and F1"}}
	server  = []ban{{"k8s.io/apiserver", "of the packages below F3 only store speaks the API server's storage interface"}}
	impure  = []ban{
		{"context", "F1 is pure: nothing in it waits, so nothing can be cancelled"},
		{"sync", "F1 is pure: one goroutine, no locks"},
		{"os", "F1 is pure: no files, no environment"},
		{"math/rand", "F1 is pure: math/rand/v2 with a keyed source, never a global one"},
		{"crypto/rand", "F1 is pure: randomness is an argument"},
		{"runtime", "F1 is pure: the same on every machine"},
	}
)

// bansFor are the imports that a place must do without.
func bansFor(entry string, floor int) []ban {
	if floor > 2 {
		if entry == "internal/cli" || entry == "cmd/rehearse" || floor == outside {
			return nil
		}
		return []ban{{"github.com/spf13/cobra", "flags and commands belong to internal/cli"}}
	}
	bans := slices.Concat(clients, logs, commandLine)
	if entry != "internal/store" {
		bans = append(bans, server...)
	}
	if floor < 2 {
		bans = append(bans, network...)
	}
	if floor == 1 {
		bans = append(bans, impure...)
	}
	return bans
}

func (b ban) hits(path string) bool {
	return path == b.prefix || strings.HasPrefix(path, b.prefix+"/")
}

// CheckImports judges where packages stand and what they import.
func CheckImports(packages []Package) (violations []string) {
	for _, p := range packages {
		for _, part := range strings.Split(strings.TrimPrefix(p.ImportPath, Module), "/") {
			if slices.Contains(banned, part) {
				violations = append(violations, fmt.Sprintf("%s: %q is no name for a package: say what it does", p.ImportPath, part))
			}
		}
		entry, floor, ok := place(p.ImportPath)
		if !ok {
			violations = append(violations, fmt.Sprintf("%s stands on no floor: decide, and enter it in internal/archtest/floors.go", p.ImportPath))
			continue
		}
		bans := bansFor(entry, floor)
		for _, path := range p.Imports {
			if strings.HasPrefix(path, Module+"/") {
				if reason := judge(entry, floor, path); reason != "" {
					violations = append(violations, fmt.Sprintf("%s imports %s: %s", p.ImportPath, path, reason))
				}
				continue
			}
			for _, b := range bans {
				if b.hits(path) {
					violations = append(violations, fmt.Sprintf("%s imports %s: %s", p.ImportPath, path, b.reason))
					break
				}
			}
		}
	}
	return violations
}

// judge says what is wrong with an import of one of our packages, "" if nothing is.
func judge(entry string, floor int, path string) string {
	to, toFloor, ok := place(path)
	switch {
	case !ok:
		return "" // reported where that package is listed
	case to == entry:
		return ""
	case never[[2]string{entry, to}] != "":
		return never[[2]string{entry, to}]
	case toFloor == outside:
		return to + " is beside the house, and nothing in it may depend on that"
	case floor == outside || toFloor < floor || level[[2]string{entry, to}]:
		return ""
	case toFloor == floor:
		return fmt.Sprintf("both are on F%d, and between equals only the edges listed in internal/archtest/floors.go are allowed", floor)
	}
	return fmt.Sprintf("that goes up from F%d to F%d; imports go down only", floor, toFloor)
}
