package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// Package holds the fields of an entry of `go list -json` that the checks read.
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
	DepOnly      bool // listed only because a package of the module imports it
}

// ban is an import that some packages must not have.
type ban struct {
	prefix string // of the import path, at a path boundary
	reason string
}

var (
	clients = []ban{
		{"k8s.io/client-go", "no client below F3: the seam is HTTP"},
		{"sigs.k8s.io/controller-runtime", "no client below F3: the seam is HTTP"},
		{"k8s.io/kubernetes", "the upstream programs are linked by internal/apiserver and cluster only"},
	}
	logs = []ban{
		{"log", "F0 to F2 do not log: they return values, and the caller decides what to log"},
		{"log/slog", "F0 to F2 do not log: they return values, and the caller decides what to log"},
		{"k8s.io/klog", "F0 to F2 do not log: they return values, and the caller decides what to log"},
		{"github.com/go-logr", "F0 to F2 do not log: they return values, and the caller decides what to log"},
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
		{"context", "F1 is pure: it never waits, so there is nothing to cancel"},
		{"sync", "F1 is pure: one goroutine, no locks"},
		{"os", "F1 is pure: no files, no environment"},
		{"math/rand", "F1 is pure: math/rand/v2 with a keyed source, never a global one"},
		{"crypto/rand", "F1 is pure: randomness is an argument"},
		{"runtime", "F1 is pure: the same on every machine"},
	}
)

// bansFor returns the imports that the packages of an entry must not have.
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

// CheckImports checks the names, the floors and the direct imports of packages.
func CheckImports(packages []Package) (violations []string) {
	for _, p := range packages {
		if p.DepOnly {
			continue
		}
		for _, part := range strings.Split(strings.TrimPrefix(p.ImportPath, Module), "/") {
			if slices.Contains(banned, part) {
				violations = append(violations, fmt.Sprintf("%s: %q is not a name for a package: name what it does", p.ImportPath, part))
			}
		}
		entry, floor, ok := place(p.ImportPath)
		if !ok {
			violations = append(violations, fmt.Sprintf("%s has no floor: decide, and enter it in internal/archtest/floors.go", p.ImportPath))
			continue
		}
		bans := bansFor(entry, floor)
		for _, path := range p.Imports {
			if strings.HasPrefix(path, Module+"/") {
				if reason := checkImport(entry, floor, path); reason != "" {
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

// checkImport returns why an import of a package of this module is wrong, "" if it is right.
func checkImport(entry string, floor int, path string) string {
	to, toFloor, ok := place(path)
	switch {
	case !ok:
		return "" // reported where that package is listed
	case to == entry:
		return ""
	case never[[2]string{entry, to}] != "":
		return never[[2]string{entry, to}]
	case toFloor == outside && floor != outside:
		return to + " is outside the layers, and no package in them may import it"
	case floor == outside || toFloor < floor || level[[2]string{entry, to}]:
		return ""
	case toFloor == floor:
		return fmt.Sprintf("both are on F%d, and on one floor only the imports listed in internal/archtest/floors.go are allowed", floor)
	}
	return fmt.Sprintf("that goes up from F%d to F%d; imports go down only", floor, toFloor)
}
