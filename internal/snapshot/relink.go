package snapshot

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// State says what a restore knows of the UID of a saved object.
type State int

// The states.
const (
	Unknown    State = iota // the snapshot has no object with this UID
	Pending                 // the object has not been created yet
	Created                 // the object exists and has a new UID
	Failed                  // the object could not be created
	Unselected              // the snapshot has the object, and it is not to be restored
)

// Lookup returns the state of a saved UID, and the new one if the object was created.
type Lookup func(uid string) (created string, s State)

// Owners are the owner references of an object by the states of the owners, as "KIND NAME".
type Owners struct{ Unknown, Pending, Failed []string }

// RelinkOwners replaces the UIDs of the owners that were created, and removes the references to owners that the snapshot does
// not contain or that are not to be restored (Owners.Unknown): the garbage collector would delete their dependents. It leaves the references to other owners unchanged.
func RelinkOwners(obj *unstructured.Unstructured, lookup Lookup) (o Owners) {
	list, _, _ := unstructured.NestedSlice(obj.Object, "metadata", "ownerReferences")
	if len(list) == 0 {
		return o
	}
	kept := []any{}
	for _, item := range list {
		ref, _ := item.(map[string]any)
		uid, _ := ref["uid"].(string)
		created, state := lookup(uid)
		name := fmt.Sprintf("%v %v", ref["kind"], ref["name"])
		switch state {
		case Unknown, Unselected:
			o.Unknown = append(o.Unknown, name)
			continue
		case Pending:
			o.Pending = append(o.Pending, name)
		case Failed:
			o.Failed = append(o.Failed, name)
		case Created:
			ref["uid"] = created
		}
		kept = append(kept, ref)
	}
	if len(kept) == 0 {
		unstructured.RemoveNestedField(obj.Object, "metadata", "ownerReferences")
		return o
	}
	_ = unstructured.SetNestedSlice(obj.Object, kept, "metadata", "ownerReferences") // it has been read from there
	return o
}

// uidLength is the length of a UID. It makes the walk over all strings of an object cheap.
const uidLength = 36

// Relink replaces each string of a value that is exactly the UID of a saved object by the new UID: in labels of a Job's pods,
// in spec.claimRef of a volume, in targetRef of an endpoint, and in every custom resource. It does not change the keys of maps,
// and nothing below metadata.ownerReferences, which RelinkOwners does. A field uid with the UID of an object that was not created is removed,
// because controllers act on a UID that does not exist. complete is false if such an object may be created later, also if another string has its UID.
func Relink(v any, lookup Lookup) (complete bool) {
	complete = true
	relink(v, lookup, &complete)
	return complete
}

func relink(v any, lookup Lookup, complete *bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, child := range v {
			if k == "ownerReferences" {
				continue
			}
			s, isString := child.(string)
			if !isString {
				relink(child, lookup, complete)
				continue
			}
			created, state := find(s, lookup)
			switch {
			case state == Created:
				v[k] = created
			case state != Unknown:
				*complete = *complete && state != Pending
				if k == "uid" {
					delete(v, k)
				}
			}
		}
	case []any:
		for i, child := range v {
			s, isString := child.(string)
			if !isString {
				relink(child, lookup, complete)
				continue
			}
			if created, state := find(s, lookup); state == Created {
				v[i] = created
			} else if state == Pending {
				*complete = false
			}
		}
	}
}

// References returns the strings of a value that have the form of a UID.
func References(v any) (ids []string) {
	switch v := v.(type) {
	case map[string]any:
		for _, child := range v {
			ids = append(ids, References(child)...)
		}
	case []any:
		for _, child := range v {
			ids = append(ids, References(child)...)
		}
	case string:
		if hasFormOfUID(v) {
			ids = append(ids, v)
		}
	}
	return ids
}

func hasFormOfUID(s string) bool { return len(s) == uidLength && s[8] == '-' && s[13] == '-' }

func find(s string, lookup Lookup) (string, State) {
	if !hasFormOfUID(s) {
		return "", Unknown
	}
	return lookup(s)
}
