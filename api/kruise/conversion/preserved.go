package conversion

import (
	"encoding/json"
	"fmt"
)

// Annotation preserves the values that the current version of an object cannot express. Users should not edit
// it. An edit of a value that it preserves takes precedence.
const Annotation = "rehearse-k8s.github.io/cloneset-conversion"

// preserved is the value of Annotation.
type preserved struct {
	// V1beta1 is preserved in v1alpha1: the update type of v1beta1, if it is not the usual one.
	V1beta1 *updateType `json:"v1beta1,omitempty"`
	// V1alpha1 is preserved in v1beta1.
	V1alpha1 *alphaOnly `json:"v1alpha1,omitempty"`
}

// alphaOnly holds the values that v1beta1 cannot express.
type alphaOnly struct {
	// Label is the value of LabelExcludePreparingDelete, if it is not "true".
	Label *string `json:"excludePreparingDeleteLabel,omitempty"`
	// Notes are annotations without effect: they are invalid, or a field takes precedence.
	Notes map[string]string `json:"annotations,omitempty"`
	// The fields of inPlaceUpdateStrategy that were fields, not annotations.
	Fields []string `json:"fields,omitempty"`
	// EmptyBlock: inPlaceUpdateStrategy existed without any field.
	EmptyBlock bool `json:"emptyInPlaceUpdateStrategy,omitempty"`
}

func (r *preserved) alpha() *alphaOnly {
	if r.V1alpha1 == nil {
		r.V1alpha1 = &alphaOnly{}
	}
	return r.V1alpha1
}

func (a *alphaOnly) note(annotation, value string) {
	if a.Notes == nil {
		a.Notes = map[string]string{}
	}
	a.Notes[annotation] = value
}

// takePreserved reads the annotation and removes it. An annotation of another form stays.
func (c *cloneSet) takePreserved() (r preserved) {
	value, _ := c.annotations[Annotation].(string)
	if json.Unmarshal([]byte(value), &r) != nil || r.V1beta1 == nil && r.V1alpha1 == nil {
		return preserved{}
	}
	delete(c.annotations, Annotation)
	return r
}

func (c *cloneSet) putRecollection(r preserved) error {
	if r.V1beta1 == nil && r.V1alpha1 == nil {
		return nil
	}
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	c.annotations[Annotation] = string(value)
	return nil
}

// child returns an object inside another; an absent one is empty and is not added.
func child(m map[string]any, key, path string) (inner map[string]any, there bool, err error) {
	switch v := m[key].(type) {
	case nil:
		return map[string]any{}, false, nil
	case map[string]any:
		return v, true, nil
	default:
		return nil, false, fmt.Errorf("%s: want an object, got %T", path, v)
	}
}

func text(m map[string]any, key, path string) (value string, there bool, err error) {
	v, there := m[key]
	if !there {
		return "", false, nil
	}
	value, ok := v.(string)
	if !ok {
		return "", true, fmt.Errorf("%s[%s]: want a string, got %T", path, key, v)
	}
	return value, true, nil
}

func optionalText(m map[string]any, key, path string) (*string, error) {
	switch v := m[key].(type) {
	case nil:
		return nil, nil
	case string:
		return &v, nil
	default:
		return nil, fmt.Errorf("%s: want a string, got %T", path, v)
	}
}

func boolean(m map[string]any, key, path string) (bool, error) {
	switch v := m[key].(type) {
	case nil:
		return false, nil
	case bool:
		return v, nil
	default:
		return false, fmt.Errorf("%s: want true or false, got %T", path, v)
	}
}
