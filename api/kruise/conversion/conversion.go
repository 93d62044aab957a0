package conversion

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1beta1"
)

// JSON converts o to a version, such as apps.kruise.io/v1beta1. It works in place; after an error, o must not
// be used. Numbers are int64 or float64, as apimachinery decodes them.
func JSON(o map[string]any, version string) error {
	from, _ := o["apiVersion"].(string)
	alpha, beta := v1alpha1.GroupVersion.String(), v1beta1.GroupVersion.String()
	if kind := o["kind"]; kind != v1alpha1.Kind {
		return fmt.Errorf("kind %v: want %s", kind, v1alpha1.Kind)
	}
	for _, v := range []string{from, version} {
		if v != alpha && v != beta {
			return fmt.Errorf("apiVersion %q: want %s or %s", v, alpha, beta)
		}
	}
	if from == version {
		return nil
	}
	o["apiVersion"] = version
	// Without a spec, the versions do not differ.
	if o["spec"] == nil {
		return nil
	}
	c := &cloneSet{}
	if err := c.open(o); err != nil {
		return err
	}
	var err error
	if version == beta {
		err = c.toV1beta1()
	} else {
		err = c.toV1alpha1()
	}
	if err != nil {
		return err
	}
	c.close()
	return nil
}

// ToV1beta1 returns in as v1beta1.
func ToV1beta1(in *v1alpha1.CloneSet) (*v1beta1.CloneSet, error) {
	out := &v1beta1.CloneSet{}
	return out, through(in, v1alpha1.GroupVersion.String(), out, v1beta1.GroupVersion.String())
}

// ToV1alpha1 returns in as v1alpha1.
func ToV1alpha1(in *v1beta1.CloneSet) (*v1alpha1.CloneSet, error) {
	out := &v1alpha1.CloneSet{}
	return out, through(in, v1beta1.GroupVersion.String(), out, v1alpha1.GroupVersion.String())
}

func through(in any, from string, out any, to string) error {
	o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(in)
	if err != nil {
		return err
	}
	o["apiVersion"], o["kind"] = from, v1alpha1.Kind
	if err := JSON(o, to); err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(o, out)
}

// cloneSet holds the parts of one object in which the versions differ.
type cloneSet struct {
	meta, labels, annotations map[string]any
	spec, scale, update       map[string]any
}

// open finds the parts, and creates those that are absent.
func (c *cloneSet) open(o map[string]any) (err error) {
	for _, part := range []struct {
		of   *map[string]any
		key  string
		path string
		to   *map[string]any
	}{
		{&o, "metadata", "metadata", &c.meta},
		{&c.meta, "labels", "metadata.labels", &c.labels},
		{&c.meta, "annotations", "metadata.annotations", &c.annotations},
		{&o, "spec", "spec", &c.spec},
		{&c.spec, "scaleStrategy", "spec.scaleStrategy", &c.scale},
		{&c.spec, "updateStrategy", "spec.updateStrategy", &c.update},
	} {
		if *part.to, _, err = child(*part.of, part.key, part.path); err != nil {
			return err
		}
		(*part.of)[part.key] = *part.to
	}
	return nil
}

// close removes the parts that open created and that are still empty.
func (c *cloneSet) close() {
	for _, key := range []string{"labels", "annotations"} {
		if m, _ := c.meta[key].(map[string]any); len(m) == 0 {
			delete(c.meta, key)
		}
	}
}

func (c *cloneSet) toV1beta1() error {
	mine, before := preserved{}, c.takePreserved().V1beta1
	if err := c.flip("disablePVCReuse", "enablePVCReuse"); err != nil {
		return err
	}
	if err := c.labelToField(&mine); err != nil {
		return err
	}
	if err := c.notesToFields(&mine); err != nil {
		return err
	}
	if err := c.nest(before); err != nil {
		return err
	}
	return c.putRecollection(mine)
}

func (c *cloneSet) toV1alpha1() error {
	mine, before := preserved{}, c.takePreserved().V1alpha1
	if before == nil {
		before = &alphaOnly{}
	}
	if err := c.flip("enablePVCReuse", "disablePVCReuse"); err != nil {
		return err
	}
	if err := c.fieldToLabel(before); err != nil {
		return err
	}
	if err := c.flatten(&mine); err != nil {
		return err
	}
	if err := c.fieldsToNotes(before); err != nil {
		return err
	}
	return c.putRecollection(mine)
}

// flip replaces one bool of the scale strategy by its opposite. An absent bool counts as false and becomes
// explicit, because an absent one means the opposite in the other version.
func (c *cloneSet) flip(from, to string) error {
	v, err := boolean(c.scale, from, "spec.scaleStrategy."+from)
	if err != nil {
		return err
	}
	delete(c.scale, from)
	c.scale[to] = !v
	return nil
}

// labelToField: any value except "true" means the same as an absent label, and is preserved.
func (c *cloneSet) labelToField(mine *preserved) error {
	value, there, err := text(c.labels, kruise.LabelExcludePreparingDelete, "metadata.labels")
	if err != nil {
		return err
	}
	delete(c.labels, kruise.LabelExcludePreparingDelete)
	c.scale["excludePreparingDelete"] = value == "true"
	if there && value != "true" {
		mine.alpha().Label = &value
	}
	return nil
}

// fieldToLabel: v1beta1 never shows the label. A label that exists was set in v1beta1, for example with
// kubectl label, and takes effect.
func (c *cloneSet) fieldToLabel(before *alphaOnly) error {
	field, err := boolean(c.scale, "excludePreparingDelete", "spec.scaleStrategy.excludePreparingDelete")
	if err != nil {
		return err
	}
	delete(c.scale, "excludePreparingDelete")
	_, fresh, err := text(c.labels, kruise.LabelExcludePreparingDelete, "metadata.labels")
	switch {
	case err != nil || fresh:
		return err
	case field:
		c.labels[kruise.LabelExcludePreparingDelete] = "true"
	case before.Label != nil:
		c.labels[kruise.LabelExcludePreparingDelete] = *before.Label
	}
	return nil
}
