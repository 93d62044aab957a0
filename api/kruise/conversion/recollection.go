package conversion

import (
	"encoding/json"
	"fmt"
)

// Annotation keeps what the version that an object is shown in has no word for. It is
// nobody's to edit, and it yields to every edit of what it speaks of.
const Annotation = "rehearse-k8s.github.io/cloneset-conversion"

// recollection is the value of Annotation.
type recollection struct {
	// V1beta1 is kept in v1alpha1: the words for the type of update, where they are not
	// the usual ones.
	V1beta1 *words `json:"v1beta1,omitempty"`
	// V1alpha1 is kept in v1beta1.
	V1alpha1 *alphaOnly `json:"v1alpha1,omitempty"`
}

// alphaOnly is what v1beta1 has no word for.
type alphaOnly struct {
	// Label is the value of LabelExcludePreparingDelete where it is not "true".
	Label *string `json:"excludePreparingDeleteLabel,omitempty"`
	// Notes are annotations without effect: they cannot be read, or a field wins over them.
	Notes map[string]string `json:"annotations,omitempty"`
	// Fields of inPlaceUpdateStrategy that were fields, not annotations.
	Fields []string `json:"fields,omitempty"`
	// EmptyBlock: inPlaceUpdateStrategy was there without any field.
	EmptyBlock bool `json:"emptyInPlaceUpdateStrategy,omitempty"`
}

func (r *recollection) alpha() *alphaOnly {
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

// takeRecollection reads the annotation and takes it away. What is not ours stays.
func (c *cloneSet) takeRecollection() (r recollection) {
	value, _ := c.annotations[Annotation].(string)
	if json.Unmarshal([]byte(value), &r) != nil || r.V1beta1 == nil && r.V1alpha1 == nil {
		return recollection{}
	}
	delete(c.annotations, Annotation)
	return r
}

func (c *cloneSet) putRecollection(r recollection) error {
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

// child is an object inside another; an absent one is empty and not there.
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
