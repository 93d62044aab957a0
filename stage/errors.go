package stage

import (
	"fmt"
	"strings"
)

// Error is what is wrong with a stage, and where.
type Error struct {
	// File is the name given to Load; empty where stages did not come from a file.
	File string
	// Line is the line in File, from 1 on; 0 where it is not known.
	Line int
	// Stage is the stage's name; empty where the document did not get that far.
	Stage string
	// Field is the path of the field, for instance "spec.steps[1].patch.type".
	Field string
	// Problem is the sentence for the user.
	Problem string
	// Overran is true if the stage exceeds its budget: its template grows too large or loops too long.
	Overran bool

	of *Stage // it is about
}

// Error implements error: "stages.yaml:7: stage pod-x: spec.weight: must not be negative".
func (e *Error) Error() string {
	var parts []string
	switch {
	case e.File != "" && e.Line > 0:
		parts = append(parts, fmt.Sprintf("%s:%d", e.File, e.Line))
	case e.File != "":
		parts = append(parts, e.File)
	}
	if e.Stage != "" {
		parts = append(parts, "stage "+e.Stage)
	}
	if e.Field != "" {
		parts = append(parts, e.Field)
	}
	return strings.Join(append(parts, e.Problem), ": ")
}

func problem(field, text string) *Error { return &Error{Field: field, Problem: text} }

// joined makes one error of several; nil of none.
func joined(all []*Error) error {
	if len(all) == 0 {
		return nil
	}
	return Errors(all)
}

// Errors are several of them, one a line.
type Errors []*Error

// Error implements error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives each to errors.As and errors.Is.
func (e Errors) Unwrap() []error {
	out := make([]error, len(e))
	for i, one := range e {
		out[i] = one
	}
	return out
}
