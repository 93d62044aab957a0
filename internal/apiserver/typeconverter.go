package apiserver

import (
	"errors"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// typeConverter converts between objects and the typed values from which upstream computes managed fields, with the same
// results as upstream's and less work:
//
//   - For each manager of an object, upstream converts the value to an object, only to read its version, which mostly is
//     the wanted one. The objects of this converter are built when something else is read.
//   - Upstream validates the old and the new object of each write against their schema, as if they were of any content. This
//     converter does so only for types that have values that do not conform to it. It also validates what must have no
//     duplicates, such as the patch of an apply, and objects that were converted to another version.
//   - Upstream visits each field of both objects. For the same types, this converter leaves out the equal parts (structValue).
type typeConverter struct {
	managedfields.TypeConverter

	mu    sync.RWMutex
	kinds map[kindAndType]*kindTypes
	check *conforming
}

// kindAndType are a kind and the Go type of its objects.
type kindAndType struct {
	kind schema.GroupVersionKind
	t    reflect.Type
}

// kindTypes are the types of the values of a kind.
type kindTypes struct {
	typed.ParseableType
	conforms bool // all its values do
}

func newTypeConverter(upstream managedfields.TypeConverter) *typeConverter {
	return &typeConverter{TypeConverter: upstream, kinds: map[kindAndType]*kindTypes{}}
}

// ObjectToTyped implements managedfields.TypeConverter.
func (c *typeConverter) ObjectToTyped(o runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	if !slices.Contains(options, typed.AllowDuplicates) {
		return c.TypeConverter.ObjectToTyped(o, options...)
	}
	key := kindAndType{o.GetObjectKind().GroupVersionKind(), reflect.TypeOf(o)}
	c.mu.RLock()
	k := c.kinds[key]
	c.mu.RUnlock()
	if k == nil || !k.conforms {
		v, err := c.TypeConverter.ObjectToTyped(o, options...)
		if k == nil && err == nil {
			c.learn(key, v)
		}
		return v, err
	}
	v, err := newStructValue(o)
	if err != nil {
		return nil, err
	}
	//lint:ignore SA1019 it is deprecated because values should be validated, and for these there is nothing to find
	return typed.AsTypedUnvalidated(v, k.Schema, k.TypeRef), nil
}

// learn decides whether all objects of a kind conform to its schema.
func (c *typeConverter) learn(key kindAndType, v *typed.TypedValue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.check == nil {
		c.check = newConforming(v.Schema())
	}
	c.kinds[key] = &kindTypes{typed.ParseableType{Schema: v.Schema(), TypeRef: v.TypeRef()}, c.check.all(key.t, v.TypeRef())}
}

// TypedToObject implements managedfields.TypeConverter.
func (c *typeConverter) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	content := v.AsValue()
	if !content.IsMap() {
		return c.TypeConverter.TypedToObject(v)
	}
	fields := content.AsMap()
	kind := schema.FromAPIVersionAndKind(stringOf(fields, "apiVersion"), stringOf(fields, "kind"))
	return &typedObject{content: content, kind: kind}, nil
}

func stringOf(fields value.Map, name string) string {
	if f, ok := fields.Get(name); ok && f.IsString() {
		return f.AsString()
	}
	return ""
}

// typedObject is the object of a typed value.
type typedObject struct {
	content value.Value
	kind    schema.GroupVersionKind
	built   map[string]any
}

var _ runtime.Unstructured = (*typedObject)(nil)

// GetObjectKind implements runtime.Object.
func (o *typedObject) GetObjectKind() schema.ObjectKind { return o }

// GroupVersionKind implements schema.ObjectKind.
func (o *typedObject) GroupVersionKind() schema.GroupVersionKind { return o.kind }

// SetGroupVersionKind implements schema.ObjectKind.
func (o *typedObject) SetGroupVersionKind(kind schema.GroupVersionKind) {
	fields := o.UnstructuredContent()
	fields["apiVersion"], fields["kind"] = kind.ToAPIVersionAndKind()
	o.kind = kind
}

// UnstructuredContent implements runtime.Unstructured.
func (o *typedObject) UnstructuredContent() map[string]any {
	if o.built == nil {
		o.built, _ = o.content.Unstructured().(map[string]any)
	}
	if o.built == nil {
		o.built = map[string]any{}
	}
	return o.built
}

// SetUnstructuredContent implements runtime.Unstructured.
func (o *typedObject) SetUnstructuredContent(content map[string]any) { o.built = content }

// DeepCopyObject implements runtime.Object.
func (o *typedObject) DeepCopyObject() runtime.Object {
	return &typedObject{kind: o.kind, built: runtime.DeepCopyJSON(o.UnstructuredContent())}
}

// NewEmptyInstance implements runtime.Unstructured.
func (o *typedObject) NewEmptyInstance() runtime.Unstructured {
	empty := &typedObject{built: map[string]any{}}
	empty.SetGroupVersionKind(o.kind)
	return empty
}

// IsList implements runtime.Unstructured.
func (o *typedObject) IsList() bool { return false }

var errNoList = errors.New("managed fields are those of one object, not of a list")

// EachListItem implements runtime.Unstructured.
func (o *typedObject) EachListItem(func(runtime.Object) error) error { return errNoList }

// EachListItemWithAlloc implements runtime.Unstructured.
func (o *typedObject) EachListItemWithAlloc(func(runtime.Object) error) error { return errNoList }
