// Package convert says which JSON values runtime.DefaultUnstructuredConverter converts to Go structs
// without a change. The converter is several times as fast as encoding/json, but it shortens an integer
// that its field cannot contain, and takes 5.0 for an integer, both without an error.
//
// It does not convert anything itself: a caller that has other numbers decides what to do instead, such as
// to use encoding/json, or to send the values as they are.
//
// Floor: F0. Imports only the standard library.
package convert

import "math"

// KeepsNumbers reports whether all numbers in value (JSON values as in an unstructured object) are integers of 32 bits, the
// smallest integer type of the Kubernetes API.
func KeepsNumbers(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			if !KeepsNumbers(v) {
				return false
			}
		}
	case []any:
		for _, v := range value {
			if !KeepsNumbers(v) {
				return false
			}
		}
	case int64:
		return value >= math.MinInt32 && value <= math.MaxInt32
	case float64:
		return false
	}
	return true
}
