package verdict

import (
	"regexp"
	"strings"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
)

// SameFailure reports whether two runs failed in the same way: they have the same [FailureKey].
func SameFailure(a, b *history.Run) bool {
	return a.Failure != nil && b.Failure != nil && FailureKey(a) == FailureKey(b)
}

// FailureKey identifies the failure of a run by the violated invariant, the object and the kind of difference;
// "" for a run that did not fail. It omits what differs between two runs that fail in the same way: numbers,
// times, values, and the generated parts of names.
func FailureKey(run *history.Run) string {
	f := run.Failure
	switch {
	case f == nil:
		return ""
	case f.Oracle == QuiescenceOracle:
		// The last write is one of many; what they have in common is the actor.
		return f.Oracle + ": " + lastWriter(run)
	}
	return f.Oracle + ": " + withoutValues(f.Message, serverNamed(run))
}

// lastWriter returns the actor of the last write, without bookkeeping; "" if there was none.
func lastWriter(run *history.Run) string {
	for n := len(run.Steps) - 1; n >= 0; n-- {
		if s := &run.Steps[n]; s.Wrote() && !history.Bookkeeping(s.Resource) {
			return s.Actor
		}
	}
	return ""
}

// serverNamed returns the names that the server generated for objects of a run.
func serverNamed(run *history.Run) map[string]bool {
	names := map[string]bool{}
	for n := range run.Steps {
		s := &run.Steps[n]
		if s.Verb == "create" && s.Wrote() && !s.Guarded && s.Subresource == "" {
			names[s.Name] = true
		}
	}
	return names
}

// quoted matches a quoted value of a message.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// withoutValues returns the words of a message: "#" replaces a number or a time, "_" a quoted value, and "*"
// the generated end of a name. Repeated words count once, so that two lists of objects with generated names
// are equal.
//
// Further lines of a message are stacks of goroutines, which differ between runs.
func withoutValues(message string, generated map[string]bool) string {
	message, _, _ = strings.Cut(message, "\n")
	message = quoted.ReplaceAllStringFunc(message, func(value string) string {
		if strings.Contains(value, "/") { // it names an object
			return value
		}
		return "_"
	})
	var words []string
	for _, word := range strings.Fields(message) {
		word = withoutNumbers(strings.Trim(word, `.,;:()"`), generated)
		if word != "" && (len(words) == 0 || words[len(words)-1] != word) {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

// number matches a number, a percentage, a step and an address in memory.
var number = regexp.MustCompile(`^([-+#]?\d+(\.\d+)?%?|\(?0x[0-9a-f]+)$`)

func withoutNumbers(word string, generated map[string]bool) string {
	if number.MatchString(word) {
		return "#"
	}
	if _, err := time.ParseDuration(word); err == nil {
		return "#"
	}
	parts := strings.Split(uuid.ReplaceAllString(word, "<uid>"), "/")
	for n, part := range parts {
		parts[n] = withoutSuffix(part, generated)
	}
	return strings.Join(parts, "/")
}

// withoutSuffix replaces the generated end of a name by "*".
func withoutSuffix(name string, generated map[string]bool) string {
	if generated[name] && len(name) > generatedSuffix {
		name = name[:len(name)-generatedSuffix] + "*"
	}
	for {
		at := strings.LastIndexByte(strings.TrimSuffix(name, "-*"), '-')
		if at <= 0 || !isGenerated(strings.TrimSuffix(name, "-*")[at+1:]) {
			return name
		}
		name = name[:at] + "-*"
	}
}

// safe matches what the API server appends to a generateName, and the hashes of the same alphabet, such as
// pod-template-hash: no vowel, and no digit that looks like one. One hash in twenty has no digit at all.
var safe = regexp.MustCompile(`^[bcdfghjklmnpqrstvwxz2456789]{5,}$`)

// hash matches hashes and times in names: of a pod template, of an owner's UID, of a CronJob's schedule.
var hash = regexp.MustCompile(`^[a-z]*[0-9][0-9a-z]*$`)

// shortestHash is the length of the shortest hash in a name. Shorter ones may be the names of versions.
const shortestHash = 8

// isGenerated reports whether a part of a name was probably generated.
func isGenerated(part string) bool {
	return safe.MatchString(part) || len(part) >= shortestHash && hash.MatchString(part)
}
