package expr

import (
	"maps"
	"slices"
)

// WithoutNative returns the query as jq runs it.
func (q *Query) WithoutNative() *Query { return &Query{text: q.text, code: q.code} }

// NativePrograms returns the programs that have a native form for the objects of a form, sorted.
func NativePrograms(of Form) []string {
	programs := podNatives
	if of == Node {
		programs = nodeNatives
	}
	out := slices.Collect(maps.Keys(metaNatives))
	for program := range programs {
		out = append(out, program)
	}
	slices.Sort(out)
	return out
}
