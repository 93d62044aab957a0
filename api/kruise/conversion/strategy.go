package conversion

import (
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1beta1"
)

const (
	updatePath  = "spec.updateStrategy"
	rollingPath = updatePath + ".rollingUpdate"
)

// updateType is the update type in the form of v1beta1.
type updateType struct {
	Type   *string `json:"type,omitempty"`
	Policy *string `json:"podUpdatePolicy,omitempty"`
	// Block: rollingUpdate exists.
	Block bool `json:"rollingUpdate,omitempty"`
}

// alphaType returns the corresponding type of v1alpha1.
func (w updateType) alphaType() *string {
	if w.Type == nil || *w.Type != string(v1beta1.RollingUpdate) {
		if w.Type == nil && w.Policy != nil {
			return w.Policy
		}
		return w.Type
	}
	if w.Policy == nil {
		return new(string(v1alpha1.ReCreate))
	}
	return w.Policy
}

// betaUpdateType returns the form of v1beta1 for a type of v1alpha1 if nothing is preserved. fields: the
// block has other fields.
func betaUpdateType(alpha *string, fields bool) updateType {
	switch {
	case alpha == nil:
		return updateType{Block: fields}
	case *alpha == string(v1alpha1.ReCreate), *alpha == string(v1alpha1.InPlaceIfPossible), *alpha == string(v1alpha1.InPlaceOnly):
		return updateType{Type: new(string(v1beta1.RollingUpdate)), Policy: alpha, Block: true}
	case *alpha == string(v1alpha1.OnDelete) && fields:
		// v1beta1's default, so that an object with only defaults preserves nothing.
		return updateType{Type: alpha, Policy: new(string(v1beta1.ReCreate)), Block: true}
	default:
		return updateType{Type: alpha, Block: fields}
	}
}

func (w updateType) equal(other updateType) bool {
	return same(w.Type, other.Type) && same(w.Policy, other.Policy) && w.Block == other.Block
}

func same(a, b *string) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

// nest moves v1alpha1's fields into the block. The preserved type is used if it still means the same as the
// current one.
func (c *cloneSet) nest(before *updateType) error {
	alpha, err := optionalText(c.update, "type", updatePath+".type")
	if err != nil {
		return err
	}
	rolling := c.update
	delete(rolling, "type")
	w := betaUpdateType(alpha, len(rolling) > 0)
	if before != nil && same(before.alphaType(), alpha) {
		w = *before
		w.Block = w.Block || len(rolling) > 0
	}
	c.update = map[string]any{}
	c.spec["updateStrategy"] = c.update
	if w.Type != nil {
		c.update["type"] = *w.Type
	}
	if w.Policy != nil {
		rolling["podUpdatePolicy"] = *w.Policy
	}
	if w.Block {
		c.update["rollingUpdate"] = rolling
	}
	return nil
}

// flatten moves the fields out of the block, and preserves the type if nest would choose another one.
func (c *cloneSet) flatten(mine *preserved) error {
	var w updateType
	var err error
	if w.Type, err = optionalText(c.update, "type", updatePath+".type"); err != nil {
		return err
	}
	rolling, there, err := child(c.update, "rollingUpdate", rollingPath)
	if err != nil {
		return err
	}
	if w.Policy, err = optionalText(rolling, "podUpdatePolicy", rollingPath+".podUpdatePolicy"); err != nil {
		return err
	}
	w.Block = there
	delete(rolling, "podUpdatePolicy")
	if !w.equal(betaUpdateType(w.alphaType(), len(rolling) > 0)) {
		mine.V1beta1 = &w
	}
	c.update = rolling
	c.spec["updateStrategy"] = c.update
	if alpha := w.alphaType(); alpha != nil {
		c.update["type"] = *alpha
	}
	return nil
}
