package stage

import (
	"fmt"
	"strings"
)

// Error is an error in a stage, and its location.
type Error struct {
	// File is the name that was passed to Load; empty if the stage does not come from a file.
	File string
	// Line is the line in File, from 1; 0 if it is unknown.
	Line int
	// Stage is the name of the stage; empty if the document could not be read so far.
	Stage string
	// Field is the path of the field, for instance "spec.steps[1].patch.type".
	Field string
	// Problem is the message for the user.
	Problem string
	// Overran is true if the stage exceeds its budget: its template renders too much output or loops too often.
	Overran bool

	of *Stage // the stage of the error
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

// joined combines errors into one; it returns nil if there are none.
func joined(all []*Error) error {
	if len(all) == 0 {
		return nil
	}
	return Errors(all)
}

// Errors are several errors, one per line.
type Errors []*Error

// Error implements error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap passes each error to errors.As and errors.Is.
func (e Errors) Unwrap() []error {
	out := make([]error, len(e))
	for i, one := range e {
		out[i] = one
	}
	return out
}
