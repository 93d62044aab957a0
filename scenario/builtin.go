package scenario

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

// builtin holds one NAME.yaml for each scenario that comes with the program. They are
// written as a user writes one: each has one client without a command, so that
// `rehearse test job -- ./my-controller` needs no file.
//
//go:embed builtin/*.yaml
var builtin embed.FS

const builtinExtension = ".yaml"

// BuiltinNames returns the names of the built-in scenarios, sorted.
func BuiltinNames() (names []string) {
	entries, _ := fs.ReadDir(builtin, "builtin")
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), builtinExtension))
	}
	return names
}

// ReadBuiltin returns the text of a built-in scenario.
func ReadBuiltin(name string) ([]byte, error) {
	data, err := builtin.ReadFile("builtin/" + name + builtinExtension)
	if err != nil {
		return nil, fmt.Errorf("read built-in scenario %q: not found; the built-in scenarios are %s", name, strings.Join(BuiltinNames(), ", "))
	}
	return data, nil
}
