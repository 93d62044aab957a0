package stage

import "strings"

// Error says what is wrong with a stage, and where.
type Error struct {
	// File is the name given to Load; empty where stages did not come from a file.
	File string
	// Stage is the stage's name; empty where the document did not get that far.
	Stage string
	// Field is the path of the field, for instance "spec.steps[1].patch.type".
	Field string
	// Problem is the sentence for the user.
	Problem string
}

// Error implements error: "stages.yaml: stage pod-x: spec.weightFrom: not supported yet".
func (e *Error) Error() string {
	var parts []string
	if e.File != "" {
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

func notYet(field, text string) *Error {
	if text != "" {
		text = ": " + text
	}
	return problem(field, "not supported yet"+text)
}
