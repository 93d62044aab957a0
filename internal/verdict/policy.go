package verdict

import (
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// Policy is what a scenario or a test excludes from the automatic checks, or adds to them.
type Policy struct {
	// Ignore are the paths that are not compared between runs.
	Ignore []Path
	// Disabled are the names of the automatic invariants that are not checked (see [invariant.Automatics]).
	Disabled []string
	// Trusted are the actors that get no faults, and whose requests are not checked for hot loops and stale own
	// writes.
	Trusted []string
	// RequireObservedWrites makes a stale own-write fail a run (see [StaleOwnWrites]).
	RequireObservedWrites bool
}

// Checks reports whether an automatic invariant is checked.
func (p *Policy) Checks(name string) bool { return !slices.Contains(p.Disabled, name) }

// IsTrusted reports whether an actor, or the controller of which it is a replica or a second instance, is trusted.
func IsTrusted(trusted []string, actor string) bool {
	return slices.ContainsFunc(trusted, func(name string) bool {
		return history.IsActor(name, actor)
	})
}

// Path selects a field of the objects of a resource, and everything below it.
type Path struct {
	// Resource is "pods" or "jobs.batch". Empty: all resources.
	Resource string
	// Field is dotted, as in status.hostIP, metadata.annotations[example.com/checksum] or
	// status.endpoints[*].nodeName, where [*] is any element of a list. Empty: the whole object.
	Field string
}

// String returns, for example, "pods status.hostIP".
func (p Path) String() string { return strings.TrimSpace(p.Resource + " " + p.Field) }

// segments splits a dotted path, with or without its first dot, into field names and the contents of brackets.
// An index or a key of a list keeps its brackets; a key of a map loses them.
func segments(path string) (all []string) {
	for rest := strings.TrimPrefix(path, "."); rest != ""; rest = strings.TrimPrefix(rest, ".") {
		if rest[0] == '[' {
			if end := strings.IndexByte(rest, ']'); end > 0 {
				inside := rest[1:end]
				if isListKey(inside) {
					inside = rest[:end+1]
				}
				all, rest = append(all, inside), rest[end+1:]
				continue
			}
		}
		end := strings.IndexAny(rest[1:], ".[") + 1
		if end == 0 {
			end = len(rest)
		}
		all, rest = append(all, rest[:end]), rest[end:]
	}
	return all
}

// isListKey reports whether the content of brackets selects an element of a list: an index, key=value, or *.
func isListKey(inside string) bool {
	if inside == "*" || strings.Contains(inside, "=") {
		return true
	}
	return inside != "" && strings.Trim(inside, "0123456789") == ""
}

// covers reports whether a field is the one that the path selects, or below it.
func (p Path) covers(resource, field string) bool {
	if p.Resource != "" && p.Resource != resource {
		return false
	}
	if p.Field == "" {
		return true
	}
	want, have := segments(p.Field), segments(field)
	if len(have) < len(want) {
		return false
	}
	for n, segment := range want {
		if segment != have[n] && !(segment == "[*]" && strings.HasPrefix(have[n], "[")) {
			return false
		}
	}
	return true
}

// anyElement returns a path with [*] in place of the indexes and keys of list elements.
func anyElement(path string) string {
	var b strings.Builder
	for _, segment := range segments(path) {
		switch {
		case strings.HasPrefix(segment, "["):
			b.WriteString("[*]")
		case strings.ContainsAny(segment, ".["):
			b.WriteString("[" + segment + "]")
		default:
			b.WriteString("." + segment)
		}
	}
	return strings.TrimPrefix(b.String(), ".")
}

// indexed returns a path in the form that [history.Confidential] expects: keys without brackets, and an index for
// each element of a list.
func indexed(path string) string {
	if !strings.Contains(path, "[") {
		return path
	}
	var b strings.Builder
	for _, segment := range segments(path) {
		if strings.HasPrefix(segment, "[") {
			segment = "[0]"
		} else {
			segment = "." + segment
		}
		b.WriteString(segment)
	}
	return b.String()
}

// joined returns the path of a key of an object. A key with a dot is written in brackets, so that the path
// can be split again.
func joined(path, key string) string {
	if strings.ContainsAny(key, ".[") {
		return path + "[" + key + "]"
	}
	return path + "." + key
}

// Syntax is how an author turns an automatic invariant off.
type Syntax int

const (
	// InTest is a Go test with package simtest.
	InTest Syntax = iota
	// InScenario is a Scenario.
	InScenario
)

// automaticByOracle maps the oracle of a failure to the name of its automatic invariant.
var automaticByOracle = map[string]string{
	BaselineOracle:                  invariant.AutomaticEndState,
	QuiescenceOracle:                invariant.AutomaticQuiescence,
	ObservedGenerationOracle:        invariant.AutomaticObservedGeneration,
	StaleOracle:                     invariant.AutomaticStaleOwnWrites,
	invariant.Deleted().Name:        invariant.AutomaticDeleted,
	invariant.NoOrphans().Name:      invariant.AutomaticNoOrphans,
	invariant.UniqueOwnerUID().Name: invariant.AutomaticUniqueOwnerUID,
	invariant.DefaultHotLoop.Name:   invariant.AutomaticHotLoop,

	invariant.NotRejectedAgain().Name:     invariant.AutomaticInvalidWrites,
	invariant.NoClaimDeleted().Name:       invariant.AutomaticClaims,
	invariant.NoSuccessorDeleted().Name:   invariant.AutomaticSuccessors,
	invariant.NoLostUpdate().Name:         invariant.AutomaticLostUpdates,
	invariant.ConsistentConditions().Name: invariant.AutomaticConditions,
}

// Switch returns what an author writes to accept a failure of an automatic invariant; "" if the scenario or
// the test itself requires the invariant.
func Switch(f *history.Failure, s Syntax) string {
	name := automaticByOracle[f.Oracle]
	switch {
	case name == "":
		return ""
	case f.Oracle == BaselineOracle && s == InScenario:
		ignore := "resource: " + f.Resource
		if f.Path != "" {
			ignore += ", path: " + yamlText(anyElement(f.Path))
		}
		return "invariants.ignore: [{" + ignore + "}]; or, if runs may end in different states, invariants.endsVary: true"
	case f.Oracle == BaselineOracle:
		ignore := `"` + f.Resource + `"`
		if f.Path != "" {
			ignore += `, "` + anyElement(f.Path) + `"`
		}
		return "w.Ignore(" + ignore + "); or, if runs may end in different states, w.AllowDifferentOutcomes()"
	case s == InScenario:
		return "invariants.disable: [" + name + "]"
	}
	return `w.Disable("` + name + `")`
}

// yamlText quotes a text that is not a plain scalar in a YAML flow mapping.
func yamlText(text string) string {
	if strings.ContainsAny(text, "[]{},:#'\"*&!|>%@`") {
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	return text
}

// SetSwitch records in a failure what its author writes to accept it.
func SetSwitch(f *history.Failure, s Syntax) {
	if f != nil {
		f.Switch = Switch(f, s)
	}
}
