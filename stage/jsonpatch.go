package stage

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/rehearse-k8s/rehearse/internal/stage/limit"
	"k8s.io/apimachinery/pkg/runtime"
)

// applyJSONPatch applies RFC 6902 operations to a copy of a JSON value.
func applyJSONPatch(target any, ops []any) (any, error) {
	out := runtime.DeepCopyJSONValue(target)
	for i, raw := range ops {
		op, ok := raw.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("operation %d is not a mapping", i)
		}
		var err error
		if out, err = applyOperation(out, op); err != nil {
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return out, nil
}

func applyOperation(doc any, op map[string]any) (any, error) {
	name, _ := op["op"].(string)
	to, err := pointer(op, "path")
	if err != nil {
		return nil, err
	}
	value, hasValue := op["value"]
	if !hasValue && (name == "add" || name == "replace" || name == "test") {
		return nil, fmt.Errorf("%s requires a value", name)
	}
	switch name {
	case "add":
		return putAt(doc, to, runtime.DeepCopyJSONValue(value), true)
	case "replace":
		return putAt(doc, to, runtime.DeepCopyJSONValue(value), false)
	case "remove":
		return removeAt(doc, to)
	case "test":
		at, err := getAt(doc, to)
		if err == nil && !reflect.DeepEqual(at, value) {
			err = fmt.Errorf("%v does not have the tested value", op["path"])
		}
		return doc, err
	case "move", "copy":
		from, err := pointer(op, "from")
		if err != nil {
			return nil, err
		}
		moved, err := getAt(doc, from)
		if err != nil {
			return nil, err
		}
		moved = runtime.DeepCopyJSONValue(moved)
		if name == "move" {
			if doc, err = removeAt(doc, from); err != nil {
				return nil, err
			}
		}
		return putAt(doc, to, moved, true)
	}
	return nil, fmt.Errorf("op %s is not one of add, remove, replace, move, copy, test", limit.Quote(name))
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// pointer splits a JSON pointer (RFC 6901).
func pointer(op map[string]any, key string) ([]string, error) {
	text, ok := op[key].(string)
	if !ok || text != "" && text[0] != '/' {
		return nil, fmt.Errorf("%s is not a JSON pointer such as /status/phase", key)
	}
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text[1:], "/")
	for i := range parts {
		parts[i] = unescape.Replace(parts[i])
	}
	return parts, nil
}

func getAt(doc any, path []string) (any, error) {
	for _, part := range path {
		switch at := doc.(type) {
		case map[string]any:
			next, ok := at[part]
			if !ok {
				return nil, missing(part)
			}
			doc = next
		case []any:
			i, err := index(part, len(at)-1)
			if err != nil {
				return nil, err
			}
			doc = at[i]
		default:
			return nil, missing(part)
		}
	}
	return doc, nil
}

// putAt adds or replaces the value at a path and returns the document.
func putAt(doc any, path []string, value any, add bool) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	part, last := path[0], len(path) == 1
	switch at := doc.(type) {
	case map[string]any:
		inner, ok := at[part]
		if !ok && !(last && add) {
			return nil, missing(part)
		}
		next, err := putAt(inner, path[1:], value, add)
		if err == nil {
			at[part] = next
		}
		return at, err
	case []any:
		if last && add {
			i := len(at)
			if part != "-" {
				var err error
				if i, err = index(part, len(at)); err != nil {
					return nil, err
				}
			}
			at = append(at, nil)
			copy(at[i+1:], at[i:])
			at[i] = value
			return at, nil
		}
		i, err := index(part, len(at)-1)
		if err != nil {
			return nil, err
		}
		at[i], err = putAt(at[i], path[1:], value, add)
		return at, err
	}
	return nil, missing(part)
}

func removeAt(doc any, path []string) (any, error) {
	if len(path) == 0 {
		return nil, nil
	}
	part, last := path[0], len(path) == 1
	switch at := doc.(type) {
	case map[string]any:
		inner, ok := at[part]
		if !ok {
			return nil, missing(part)
		}
		if last {
			delete(at, part)
			return at, nil
		}
		next, err := removeAt(inner, path[1:])
		at[part] = next
		return at, err
	case []any:
		i, err := index(part, len(at)-1)
		if err != nil {
			return nil, err
		}
		if last {
			return append(at[:i], at[i+1:]...), nil
		}
		at[i], err = removeAt(at[i], path[1:])
		return at, err
	}
	return nil, missing(part)
}

func missing(part string) error { return fmt.Errorf("%s does not exist", limit.Quote(part)) }

func index(part string, most int) (int, error) {
	i, err := strconv.Atoi(part)
	if err != nil || i < 0 || i > most || strconv.Itoa(i) != part {
		return 0, fmt.Errorf("%s is not an index of the list", limit.Quote(part))
	}
	return i, nil
}
