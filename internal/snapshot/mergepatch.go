package snapshot

import "k8s.io/apimachinery/pkg/api/equality"

// MergePatch returns the JSON merge patch (RFC 7386) from one object to another. It is empty if they are equal. Its values are those of
// the second object, not copies.
func MergePatch(from, to map[string]any) map[string]any {
	patch := map[string]any{}
	for k := range from {
		if _, ok := to[k]; !ok {
			patch[k] = nil
		}
	}
	for k, v := range to {
		old, ok := from[k]
		oldMap, isMap := old.(map[string]any)
		newMap, bothMaps := v.(map[string]any)
		switch {
		case ok && isMap && bothMaps:
			if p := MergePatch(oldMap, newMap); len(p) > 0 {
				patch[k] = p
			}
		case !ok || !equality.Semantic.DeepEqual(old, v):
			patch[k] = v
		}
	}
	return patch
}
