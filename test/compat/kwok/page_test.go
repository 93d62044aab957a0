package kwok

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The tables of docs/reference/kwok-compatibility.md, by the titles of their sections.
const (
	kindsTable      = "Kinds"
	pathsTable      = "Kubelet endpoints"
	kwokTable       = "Flags of `kwok`"
	commandsTable   = "Commands of `kwokctl`"
	globalTable     = "Flags of all commands of `kwokctl`"
	createTable     = "Flags of `kwokctl create cluster`"
	otherFlagsTable = "Flags of the other commands of `kwokctl`"
)

// commandsDir is the directory in KWOK's source with the commands of kwokctl. createCommand is the command with a table of its own.
const (
	commandsDir   = "pkg/kwokctl/cmd"
	createCommand = "create cluster"
)

// page contains the first cells of the rows of each table.
type page map[string][]string

func readPage(t *testing.T) page {
	t.Helper()
	text := readFile(t, filepath.Join("..", "..", "..", "docs", "reference", "kwok-compatibility.md"))
	p, title := page{}, ""
	for line := range strings.Lines(text) {
		if section, ok := strings.CutPrefix(line, "## "); ok {
			title = strings.TrimSpace(section)
		}
		if cells := strings.Split(line, "|"); len(cells) > 4 && strings.Contains(cells[1], "`") {
			p[title] = append(p[title], cells[1])
		}
	}
	return p
}

// has reports whether a row of a table names all of these in its first cell.
func (p page) has(table string, names ...string) bool {
	return slices.ContainsFunc(p[table], func(cell string) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return !strings.Contains(cell, "`"+name+"`") })
	})
}

// hasCommand reports whether the table of commands has a command: `snapshot save`, or save in the brackets after `snapshot`.
func (p page) hasCommand(command string) bool {
	group, name, _ := strings.Cut(command, " ")
	in := regexp.MustCompile("`" + group + "` \\([^)]*\\b" + name + "\\b")
	return p.has(commandsTable, command) || name != "" && slices.ContainsFunc(p[commandsTable], in.MatchString)
}

// TestPageIsComplete: docs/reference/kwok-compatibility.md names each kind, HTTP path, command and flag of KWOK, in the table of its command, and
// its tables of flags name no flag that KWOK does not have.
func TestPageIsComplete(t *testing.T) {
	stages, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	root, p := filepath.Join(stages, "..", ".."), readPage(t)
	missing := func(table, what string) {
		t.Errorf("the page does not name %s in the table %q", what, table)
	}
	for _, kind := range kwokKinds(t, root) {
		if !p.has(kindsTable, kind) {
			missing(kindsTable, kind)
		}
	}
	for _, path := range kwokPaths(t, root) {
		if !p.has(pathsTable, path) {
			missing(pathsTable, path)
		}
	}
	commands := kwokctlCommands(t, root)
	for dir, command := range commands {
		isGroup := slices.ContainsFunc(slices.Collect(maps.Keys(commands)), func(other string) bool { return strings.HasPrefix(other, dir+"/") })
		if !isGroup && !p.hasCommand(command) {
			missing(commandsTable, command)
		}
	}

	found := map[string]map[string]bool{} // flags by table
	check := func(table, flag string, command ...string) {
		if found[table] == nil {
			found[table] = map[string]bool{}
		}
		found[table][flag] = true
		if !p.has(table, append(command, flag)...) {
			missing(table, strings.Join(append(command, flag), " "))
		}
	}
	for file, flags := range kwokFlags(t, root) {
		dir := filepath.ToSlash(filepath.Dir(file))
		for _, flag := range flags {
			switch command := commands[dir]; {
			case dir == "pkg/config" || dir == "pkg/log": // of the main functions of both programs
				check(kwokTable, flag)
				check(globalTable, flag)
			case dir == "pkg/kwok/cmd":
				check(kwokTable, flag)
			case dir == commandsDir:
				check(globalTable, flag)
			case command == createCommand:
				check(createTable, flag)
			case command != "":
				check(otherFlagsTable, flag, command)
			default:
				t.Errorf("%s: flag %s of no command", file, flag)
			}
		}
	}
	named := regexp.MustCompile("`(--?[a-z][a-z-]*)`")
	for table, least := range map[string]int{kwokTable: 22, globalTable: 5, createTable: 57, otherFlagsTable: 25} {
		if len(found[table]) < least {
			t.Errorf("%q: %d flags found in KWOK's source, want at least %d", table, len(found[table]), least)
		}
		for _, cell := range p[table] {
			for _, m := range named.FindAllStringSubmatch(cell, -1) {
				if !found[table][m[1]] && m[1] != "--version" { // cobra adds this one
					t.Errorf("%q: KWOK has no flag %s", table, m[1])
				}
			}
		}
	}
}

// sources calls visit for each Go file in a directory of KWOK that is no test, with its path in KWOK.
func sources(t *testing.T, root, dir string, visit func(file, text string)) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := filepath.Rel(root, path)
		visit(filepath.ToSlash(file), readFile(t, path))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// kwokKinds returns the kinds of KWOK's objects and configuration.
func kwokKinds(t *testing.T, root string) (out []string) {
	kind := regexp.MustCompile(`(?m)^\t([A-Z]\w+)Kind\s+= "(\w+)"`)
	sources(t, root, "pkg/apis", func(file, text string) {
		if strings.Contains(file, "/v1alpha1/") {
			for _, m := range kind.FindAllStringSubmatch(text, -1) {
				out = append(out, m[2])
			}
		}
	})
	if len(out) < 15 {
		t.Errorf("%d kinds found: %v", len(out), out)
	}
	return out
}

// kwokPaths returns the HTTP paths that KWOK's server registers, without the parameters after them: all strings of its source that are paths.
func kwokPaths(t *testing.T, root string) (out []string) {
	path := regexp.MustCompile(`"(/[A-Za-z]+(?:/[A-Za-z]+)*)/?"`)
	sources(t, root, "pkg/kwok/server", func(_, text string) {
		for _, m := range path.FindAllStringSubmatch(text, -1) {
			out = append(out, m[1])
		}
	})
	slices.Sort(out)
	if out = slices.Compact(out); len(out) < 13 {
		t.Errorf("%d paths found: %v", len(out), out)
	}
	return out
}

// kwokctlCommands returns the commands of kwokctl by their directories, such as "snapshot save".
func kwokctlCommands(t *testing.T, root string) map[string]string {
	use := regexp.MustCompile(`(?m)^\s+Use:\s+"([a-z-]+)`)
	words := map[string]string{}
	sources(t, root, commandsDir, func(file, text string) {
		all := use.FindAllStringSubmatch(text, -1)
		if dir := filepath.ToSlash(filepath.Dir(file)); len(all) == 1 && dir != commandsDir {
			words[dir] = all[0][1]
		} else if len(all) > 1 {
			t.Errorf("%s has %d commands", file, len(all))
		}
	})
	out := map[string]string{}
	for dir, word := range words {
		if parent, ok := words[filepath.ToSlash(filepath.Dir(dir))]; ok {
			word = parent + " " + word
		}
		out[dir] = word
	}
	if len(out) < 25 {
		t.Errorf("%d commands found: %v", len(out), out)
	}
	return out
}

// kwokFlags returns the flags that each file of KWOK's programs defines, and their short forms.
func kwokFlags(t *testing.T, root string) map[string][]string {
	// Those of a command, and those of a set of flags that a function receives.
	set := regexp.MustCompile(`\w+ \*pflag\.FlagSet\) `)
	call := regexp.MustCompile(`(\.(?:Persistent)?Flags\(\)|\bflags)\.([A-Z]\w*)\(((?:[^,"()]+(?:\(\))?, )?)"([a-z-]+)"(?:, "([a-z])")?`)
	other := regexp.MustCompile(`\.(?:Persistent)?Flags\(\)\.([A-Z]\w*)\(`)
	defines := regexp.MustCompile(`^(Bool|Count|Duration|Float|Func|Int|IP|String|Text|Time|Uint|Var)`)
	out := map[string][]string{}
	for _, dir := range []string{"cmd", "pkg/kwok/cmd", commandsDir, "pkg/config", "pkg/log"} {
		sources(t, root, dir, func(file, text string) {
			if shared := dir == "pkg/config" || dir == "pkg/log"; shared && !set.MatchString(text) {
				return
			}
			definitions, matched := 0, 0
			for _, m := range other.FindAllStringSubmatch(text, -1) {
				if defines.MatchString(m[1]) {
					definitions++
				} else if !strings.HasPrefix(m[1], "Mark") && m[1] != "AddFlagSet" {
					t.Errorf("%s: %s: is it the definition of a flag?", file, m[0])
				}
			}
			for _, m := range call.FindAllStringSubmatch(text, -1) {
				if !defines.MatchString(m[2]) {
					continue
				}
				if m[1] != "flags" {
					matched++
				}
				out[file] = append(out[file], "--"+m[4])
				if m[5] != "" {
					out[file] = append(out[file], "-"+m[5])
				}
			}
			if matched != definitions {
				t.Errorf("%s: the names of %d of %d flags found", file, matched, definitions)
			}
		})
	}
	return out
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
