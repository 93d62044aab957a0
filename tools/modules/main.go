// Command modules reads the modules that a Go binary was built from, fails if one of them has a
// licence that is not allowed or not recognized, and writes a software bill of materials
// (CycloneDX, JSON).
//
//	go run ./modules -binary FILE [-sbom FILE]
//
// It reads the list of modules from the binary itself, so that it checks what is shipped. It reads
// the licence files from the module cache, and downloads only modules that the build needed.
package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
)

func main() {
	binary := flag.String("binary", "", "Go binary to read")
	sbom := flag.String("sbom", "", "file to write the bill of materials to (default: none)")
	flag.Parse()
	if err := run(*binary, *sbom); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(binary, sbom string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read build information of %s: %w", binary, err)
	}
	modules, err := dependencies(info)
	if err != nil {
		return err
	}
	var forbidden []error
	for _, m := range modules {
		if err := m.allowed(); err != nil {
			forbidden = append(forbidden, err)
		}
	}
	if err := errors.Join(forbidden...); err != nil {
		return err
	}
	fmt.Printf("%d modules, their licences are allowed: %s\n", len(modules), strings.Join(licencesOf(modules), ", "))
	if sbom == "" {
		return nil
	}
	return writeSBOM(sbom, info, modules)
}

// module is a dependency of the binary.
type module struct {
	Path, Version, Sum string
	Licences           []string // SPDX identifiers, sorted
	Unknown            string   // why the licence is unknown; empty if it is known
}

// dependencies lists the modules in the binary, with their licences.
func dependencies(info *debug.BuildInfo) ([]module, error) {
	var versions []string
	for _, d := range info.Deps {
		d = replaced(d)
		versions = append(versions, d.Path+"@"+d.Version)
	}
	dirs, err := download(versions)
	if err != nil {
		return nil, err
	}
	var out []module
	for _, d := range info.Deps {
		d = replaced(d)
		m := module{Path: d.Path, Version: d.Version, Sum: d.Sum}
		if m.Licences, err = licencesIn(dirs[d.Path+"@"+d.Version]); err != nil {
			m.Unknown = err.Error()
		}
		out = append(out, m)
	}
	return out, nil
}

func replaced(d *debug.Module) *debug.Module {
	if d.Replace != nil {
		return d.Replace
	}
	return d
}

// download returns the directories of modules by path@version. The module cache already contains
// the modules of the build.
func download(versions []string) (map[string]string, error) {
	cmd := exec.Command("go", append([]string{"mod", "download", "-json"}, versions...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go mod download: %w: %s%s", err, errs.String(), out.String())
	}
	dirs := map[string]string{}
	for d := json.NewDecoder(&out); d.More(); {
		var m struct{ Path, Version, Dir string }
		if err := d.Decode(&m); err != nil {
			return nil, fmt.Errorf("go mod download: %w", err)
		}
		dirs[m.Path+"@"+m.Version] = m.Dir
	}
	return dirs, nil
}

// licencesOf returns all licences of the modules.
func licencesOf(modules []module) (all []string) {
	for _, m := range modules {
		all = append(all, m.Licences...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
