package invariant

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/rehearse-k8s/rehearse/invariant/internal/inspect"
)

// Field returns an invariant that holds while a field of an object has a value. The path is dotted, with
// brackets for list entries and for keys that contain dots, as in
// "status.succeeded", "spec.containers[0].image" or
// "metadata.labels[app.kubernetes.io/name]". Values are compared as JSON, so that 3
// equals int64(3); nil means that the field is absent. Field panics if the path cannot be parsed,
// because that is a mistake in the test.
func Field(resource, namespace, name, path string, want any) Invariant {
	steps, err := parsePath(path)
	if err != nil {
		panic("invariant: " + err.Error())
	}
	want = asJSON(want)
	return Invariant{
		Name: fmt.Sprintf("%s %s has %s = %s", resource, inspect.Key(namespace, name), path, show(want)),
		Check: func(v View) error {
			o := v.Get(resource, namespace, name)
			if o == nil {
				return errMissing
			}
			if got := asJSON(lookUp(o.Object, steps)); !reflect.DeepEqual(got, want) {
				return fmt.Errorf("it is %s", show(got))
			}
			return nil
		},
	}
}

// CheckPath returns an error if [Field] could not parse a path, for callers that do not write the
// path themselves.
func CheckPath(path string) error {
	_, err := parsePath(path)
	return err
}

// parsePath splits a path into names of fields, which are strings, and positions in lists, which are
// ints.
func parsePath(path string) (steps []any, err error) {
	for rest := path; rest != ""; {
		if rest[0] == '[' {
			end := strings.IndexByte(rest, ']')
			if end < 2 {
				return nil, fmt.Errorf("path %q: missing ] after [", path)
			}
			inside := rest[1:end]
			if n, err := strconv.Atoi(inside); err == nil && n >= 0 {
				steps = append(steps, n)
			} else {
				steps = append(steps, inside)
			}
			rest = strings.TrimPrefix(rest[end+1:], ".")
			continue
		}
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return nil, fmt.Errorf("path %q: missing name before %q", path, rest)
		}
		steps = append(steps, rest[:end])
		rest = strings.TrimPrefix(rest[end:], ".")
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("path %q names no field", path)
	}
	return steps, nil
}

// lookUp returns the value at a path, nil if there is none.
func lookUp(value any, steps []any) any {
	for _, s := range steps {
		switch v := value.(type) {
		case map[string]any:
			// A key that consists of digits, as in labels[7], is a key too.
			value = v[fmt.Sprint(s)]
		case []any:
			n, ok := s.(int)
			if !ok || n >= len(v) {
				return nil
			}
			value = v[n]
		default:
			return nil
		}
	}
	return value
}

// asJSON converts a value to the Go types of decoded JSON, so that values that are equal in JSON are
// deeply equal.
func asJSON(value any) any {
	data, err := json.Marshal(value)
	if err != nil {
		return value
	}
	var out any
	if json.Unmarshal(data, &out) != nil {
		return value
	}
	return out
}

func show(value any) string {
	if value == nil {
		return "nothing"
	}
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(data)
}
