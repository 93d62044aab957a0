package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// unreachable are modules that a package below F3 must not link, not even through an import of an import.
// The bans of bansFor on the standard library do not apply there: k8s.io/apimachinery itself imports log, net and flag.
var unreachable = []ban{
	{"k8s.io/client-go", "no client below F3, not even through another package: the seam is HTTP"},
	{"sigs.k8s.io/controller-runtime", "no client below F3, not even through another package: the seam is HTTP"},
	{"k8s.io/kubernetes", "the upstream programs are linked by internal/apiserver and cluster only"},
	{"k8s.io/apiserver", "of the packages below F3 only internal/store links the API server's library"},
	{"github.com/spf13/cobra", "flags and commands belong to internal/cli"},
}

// mayReach are the entries of floors that CheckReach leaves out, with the reason.
var mayReach = map[string]string{
	"internal/store": "it implements storage.Interface of k8s.io/apiserver, whose packages import client-go",
}

// CheckReach reports what packages below F3 reach through other packages: a module of unreachable through any package,
// and an import that their floor bans through a package of this module. all is the output of `go list -deps -json`.
func CheckReach(all []Package) (violations []string) {
	graph := map[string]Package{}
	for _, p := range all {
		graph[p.ImportPath] = p
	}
	for _, p := range all {
		entry, floor, ok := place(p.ImportPath)
		if !ours(p.ImportPath) || !ok || floor > 2 || mayReach[entry] != "" {
			continue
		}
		bans := bansFor(entry, floor)
		var found []string
		walk(graph, p, func(chain []string, path string) {
			checked := unreachable
			if ours(chain[len(chain)-1]) {
				checked = slices.Concat(unreachable, bans)
			}
			i := slices.IndexFunc(checked, func(b ban) bool { return b.hits(path) })
			if i < 0 || slices.Contains(found, checked[i].prefix) {
				return
			}
			found = append(found, checked[i].prefix)
			violations = append(violations, fmt.Sprintf("%s reaches %s through %s: %s", p.ImportPath, path, strings.Join(chain, ", "), checked[i].reason))
		})
	}
	return violations
}

// walk calls visit for each import below the direct ones of p, nearest first, with the chain of packages that leads to it.
func walk(graph map[string]Package, p Package, visit func(chain []string, path string)) {
	type step struct {
		path  string
		chain []string // the packages from an import of p to path, path included
	}
	seen := map[string]bool{p.ImportPath: true}
	var queue []step
	for _, path := range p.Imports {
		if !seen[path] {
			seen[path] = true
			queue = append(queue, step{path, []string{path}})
		}
	}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		for _, path := range graph[s.path].Imports {
			visit(s.chain, path)
			if !seen[path] {
				seen[path] = true
				queue = append(queue, step{path, append(slices.Clone(s.chain), path)})
			}
		}
	}
}

func ours(path string) bool { return path == Module || strings.HasPrefix(path, Module+"/") }
