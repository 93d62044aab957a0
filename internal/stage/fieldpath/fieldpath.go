// Package fieldpath writes the paths of fields in messages: "status.conditions[Ready].status".
//
// A key with a character that separates parts stands in brackets, and an item of a list is named by its type, name
// or ip where it has one.
//
// It is not the path of a jq program or of a JSON pointer; those have packages of their own.
//
// Floor: F1, pure. Imports the standard library only.
package fieldpath

import (
	"fmt"
	"strings"
)

// Item returns the name of an item of a list: its type, name or ip, else its index.
func Item(item any, i int) string {
	m, _ := item.(map[string]any)
	for _, key := range []string{"type", "name", "ip"} {
		if name, ok := m[key].(string); ok && name != "" {
			return name
		}
	}
	return fmt.Sprint(i)
}

// Join returns the path of a key of the object at path.
func Join(path, key string) string {
	if strings.ContainsAny(key, "./[]") {
		key = "[" + key + "]"
		return path + key
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
