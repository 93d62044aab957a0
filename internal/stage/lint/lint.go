package lint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/stage"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	"go.yaml.in/yaml/v3"
)

// Severity says how bad a finding is.
type Severity string

// The severities. A stage with an error is rejected or cannot do what it says; a warning is valid and surely a
// mistake; info is good to know.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Finding is one thing that Files found.
type Finding struct {
	File     string   `json:"file"`
	Line     int      `json:"line,omitempty"`
	Column   int      `json:"column,omitempty"`
	Severity Severity `json:"severity"`
	Stage    string   `json:"stage,omitempty"`
	Field    string   `json:"field,omitempty"`
	Message  string   `json:"message"`
}

// String is the finding as compilers print them:
// "stages.yaml:7:3: error: stage pod-x: spec.weight: must not be negative".
func (f Finding) String() string {
	where := f.File
	for _, n := range []int{f.Line, f.Column} {
		if n > 0 {
			where += ":" + strconv.Itoa(n)
		}
	}
	parts := []string{where, string(f.Severity)}
	if f.Stage != "" {
		parts = append(parts, "stage "+f.Stage)
	}
	if f.Field != "" {
		parts = append(parts, f.Field)
	}
	return strings.Join(append(parts, f.Message), ": ")
}

// Report is what Files found, in the order of the files.
type Report struct {
	Findings []Finding
	// Stages is how many stages the files hold.
	Stages int
}

// Files finds all that is wrong with the stages of files, which are taken as one set: what loading rejects, and
// what is valid and can be seen to go wrong. For that it plays the stages on sample objects.
func Files(files ...stage.File) Report {
	l := &linter{cel: &expr.CELCompiler{}, seen: map[Finding]bool{}}
	for _, f := range files {
		l.file(f)
	}
	l.doubledNames()
	for _, s := range l.stages {
		l.compile(s)
		l.static(s)
	}
	for _, kind := range l.kinds() {
		l.kind(kind)
	}
	order := map[string]int{}
	for i, f := range files {
		order[f.Name] = i
	}
	slices.SortStableFunc(l.findings, func(a, b Finding) int {
		return cmp.Or(order[a.File]-order[b.File], a.Line-b.Line, a.Column-b.Column)
	})
	return Report{Findings: l.findings, Stages: len(l.stages)}
}

type linter struct {
	cel      *expr.CELCompiler
	stages   []*linted
	findings []Finding
	seen     map[Finding]bool
}

// linted is one stage under examination.
type linted struct {
	*stage.Source
	written  *stage.Stage // as it stands in the file, source.stage is the repaired one
	bad      []string     // fields that are wrong; with any, it is not played
	never    bool         // it cannot match
	compiled *stage.Compiled
	clauses  []clause
}

func (l *linter) add(f Finding) {
	if !l.seen[f] {
		l.seen[f] = true
		l.findings = append(l.findings, f)
	}
}

// templatePlace is what text/template puts before its complaints.
var templatePlace = regexp.MustCompile(`^template:(\d+)(?::\d+)?: (executing "template" at )?`)

// say reports something about a field of a stage, unless the field is known to be
// wrong: what follows from that is no news.
func (l *linter) say(s *linted, severity Severity, field, format string, args ...any) {
	if slices.ContainsFunc(s.bad, func(bad string) bool { return within(bad, field) || within(field, bad) }) {
		return
	}
	f := Finding{File: s.File, Severity: severity, Stage: s.written.Name, Field: field, Message: fmt.Sprintf(format, args...)}
	var value *yaml.Node
	f.Line, f.Column, value = s.Position(field)
	if m := templatePlace.FindStringSubmatch(f.Message); m != nil {
		if value != nil && value.Style&yaml.LiteralStyle != 0 {
			n, _ := strconv.Atoi(m[1])
			f.Line, f.Column = s.LineOf(value)+n, 0
		}
		f.Message = f.Message[len(m[0]):]
	}
	l.add(f)
}

// within reports whether a field is another or a part of it.
func within(part, whole string) bool {
	rest, ok := strings.CutPrefix(part, whole)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// file reads the stages of a file as far as they can be read.
func (l *linter) file(f stage.File) {
	if at := invalidUTF8(f.Data); at > 0 {
		l.add(Finding{File: f.Name, Line: at, Severity: Error, Message: "is not UTF-8 text"})
		return
	}
	found := false
	for _, whole := range stage.Documents(f.Data) {
		for _, d := range whole.Items() {
			found = l.document(f.Name, d) || found
		}
	}
	if !found {
		l.add(Finding{File: f.Name, Severity: Error, Message: "no Stage in this file"})
	}
}

// invalidUTF8 is the line of the first byte that is no text; 0 where all is.
func invalidUTF8(data []byte) int {
	line := 1
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return line
		}
		if r == '\n' {
			line++
		}
		i += size
	}
	return 0
}

// document reads one document; it reports whether there was anything in it.
func (l *linter) document(file string, d stage.Document) bool {
	bad := func(e *stage.Error) bool {
		l.add(Finding{File: file, Line: max(e.Line, d.Line()), Severity: Error, Stage: e.Stage, Field: e.Field, Message: e.Problem})
		return true
	}
	src, failed := stage.DecodeOne(file, d)
	if failed == nil && src == nil {
		return false
	}
	root, err := d.Root()
	if err != nil {
		if failed == nil {
			failed = err
		}
		return bad(failed)
	}
	if failed != nil && (len(root.Content) == 0 || failed.Field == "kind" || root.Content[0].Kind != yaml.MappingNode) {
		return bad(failed)
	}
	s := &linted{Source: d.Source(file)}
	s.Stage.Name = stage.StageName(root)
	shape := shapeCheck{prune: true, left: mostShapes, report: func(path string, n *yaml.Node, text string) {
		s.bad = append(s.bad, path)
		l.add(Finding{File: file, Line: d.LineOf(n), Column: n.Column, Severity: Error, Stage: s.Stage.Name, Field: path, Message: text})
	}}
	shape.check("", root.Content[0], reflect.TypeFor[v1alpha1.Stage]())
	if failed != nil && len(s.bad) == 0 {
		return bad(failed)
	}
	if failed == nil {
		s.Stage = src.Stage
	} else if pruned, ok := decodeNode(root.Content[0]); ok {
		s.Stage = pruned
	} else {
		return true
	}
	s.written = s.Stage.DeepCopy()
	l.stages = append(l.stages, s)
	return true
}

// decodeNode reads what is left of a document once what does not fit is gone.
func decodeNode(n *yaml.Node) (*stage.Stage, bool) {
	var values any
	if n.Decode(&values) != nil {
		return nil, false
	}
	data, err := json.Marshal(values)
	if err != nil {
		return nil, false
	}
	out := &stage.Stage{}
	return out, json.Unmarshal(data, out) == nil
}

func (l *linter) doubledNames() {
	first := map[string]*linted{}
	for _, s := range l.stages {
		name := s.Stage.Name
		if other := first[name]; other != nil && name != "" {
			line, _, _ := other.Position("metadata.name")
			l.say(s, Error, "metadata.name", "another stage has this name, at %s:%d", other.File, line)
			s.bad = append(s.bad, "metadata.name")
			continue
		}
		first[name] = s
	}
}

// kinds are those that sound stages are for.
func (l *linter) kinds() []stage.Kind {
	var out []stage.Kind
	for _, s := range l.stages {
		if s.compiled != nil && !slices.Contains(out, s.compiled.Kind) {
			out = append(out, s.compiled.Kind)
		}
	}
	return out
}
