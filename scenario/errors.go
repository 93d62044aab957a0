package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one mistake in a scenario, and where it is.
type Error struct {
	// File is the scenario's, or one that it names.
	File string
	// Line in File, from 1; 0 if unknown.
	Line int
	// Path of the field, such as "spec.steps[1].wait.within"; empty for a whole file.
	Path string
	// Value is the value of the field, shortened; empty if it would not help the reader.
	Value string
	// Reason says why it is rejected and what to do.
	Reason string
}

// Error implements error: `job.yaml:7: spec.budget.runs: -1: must not be negative`.
func (e *Error) Error() string {
	where := e.File
	if e.Line > 0 {
		where = fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	parts := []string{where}
	for _, part := range []string{e.Path, e.Value} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(append(parts, e.Reason), ": ")
}

// Errors are all mistakes of a scenario, in the order of the file. Its text has one line for each.
type Errors []*Error

// Error implements error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the errors for errors.As and errors.Is.
func (e Errors) Unwrap() []error {
	out := make([]error, len(e))
	for i, one := range e {
		out[i] = one
	}
	return out
}

// problems collects the errors while a scenario is read.
type problems struct{ all Errors }

// report records an error about a value. It shortens the value, so that the error fits on one line.
func (p *problems) report(a at, value, format string, args ...any) {
	reason := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	p.all = append(p.all, &Error{File: a.file, Line: a.line, Path: cut(a.path, 120), Value: short(value), Reason: reason})
}

// err returns all reported errors, those of the main file first; nil without any.
func (p *problems) err(main string) error {
	if len(p.all) == 0 {
		return nil
	}
	slices.SortStableFunc(p.all, func(a, b *Error) int {
		if a.File == b.File {
			return cmp.Compare(a.Line, b.Line)
		}
		return cmp.Or(-cmp.Compare(truth(a.File == main), truth(b.File == main)), strings.Compare(a.File, b.File))
	})
	// An error in a file that is listed twice is reported once.
	reported := map[Error]bool{}
	return slices.DeleteFunc(p.all, func(e *Error) bool {
		again := reported[*e]
		reported[*e] = true
		return again
	})
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// short returns a text as one line of at most 60 characters.
func short(text string) string { return cut(strings.Join(strings.Fields(text), " "), 60) }

// cut returns at most the first letters of a text, with … at the end if some are missing.
func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
