package crds

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/api/v1alpha1"
)

func definition(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(Stage(), crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// TestNames: the definition is of the kind the Go types are registered under.
func TestNames(t *testing.T) {
	crd := definition(t)
	v := crd.Spec.Versions[0]
	if crd.Name != StageName || crd.Spec.Group != v1alpha1.GroupName || crd.Spec.Names.Kind != v1alpha1.StageKind ||
		v.Name != v1alpha1.GroupVersion.Version || crd.Spec.Scope != apiextensionsv1.ClusterScoped || v.Subresources.Status == nil {
		t.Errorf("got %+v", crd.Spec)
	}
}

// TestStructural: the API server takes the schema.
func TestStructural(t *testing.T) {
	in := definition(t).Spec.Versions[0].Schema.OpenAPIV3Schema
	out := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(in, out, nil); err != nil {
		t.Fatal(err)
	}
	s, err := structuralschema.NewStructural(out)
	if err != nil {
		t.Fatal(err)
	}
	if wrong := structuralschema.ValidateStructural(nil, s); len(wrong) > 0 {
		t.Error(wrong.ToAggregate())
	}
}

// TestFields: every field of the Go types is in the schema with its type, and
// nothing else is.
func TestFields(t *testing.T) {
	compare(t, "", reflect.TypeFor[v1alpha1.Stage](), *definition(t).Spec.Versions[0].Schema.OpenAPIV3Schema)
}

func compare(t *testing.T, path string, g reflect.Type, s apiextensionsv1.JSONSchemaProps) {
	if g.Kind() == reflect.Pointer {
		g = g.Elem()
	}
	if path != "" && s.Description == "" && path != ".metadata" && !strings.HasSuffix(path, "[]") {
		t.Errorf("%s has no description", path)
	}
	kind := map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer", reflect.Int64: "integer",
		reflect.Slice: "array", reflect.Map: "object", reflect.Struct: "object",
	}[g.Kind()]
	if g.PkgPath() == "k8s.io/apimachinery/pkg/apis/meta/v1" && g.Name() == "Time" {
		kind = "string"
		if s.Format != "date-time" {
			t.Errorf("%s is no date-time", path)
		}
	}
	if s.Type != kind {
		t.Errorf("%s is %q in the schema and %q in Go", path, s.Type, kind)
	}
	switch {
	case kind == "array":
		compare(t, path+"[]", g.Elem(), *s.Items.Schema)
	case g.Kind() == reflect.Map:
		compare(t, path+"[]", g.Elem(), *s.AdditionalProperties.Schema)
	case kind == "object" && path != ".metadata":
		var inGo, inSchema, required []string
		eachField(g, func(name string, optional bool, f reflect.Type) {
			inGo = append(inGo, name)
			if !optional {
				required = append(required, name)
			}
			if p, ok := s.Properties[name]; ok {
				compare(t, path+"."+name, f, p)
			}
		})
		for name := range s.Properties {
			inSchema = append(inSchema, name)
		}
		slices.Sort(inGo)
		slices.Sort(inSchema)
		if diff := cmp.Diff(inGo, inSchema); diff != "" {
			t.Errorf("fields of %s (-go +schema)\n%s", path, diff)
		}
		if diff := cmp.Diff(required, s.Required); diff != "" {
			t.Errorf("required of %s (-go +schema)\n%s", path, diff)
		}
	}
}

func eachField(t reflect.Type, visit func(name string, optional bool, f reflect.Type)) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			eachField(f.Type, visit)
			continue
		}
		visit(name, strings.Contains(fmt.Sprintf(",%s,", options), ",omitempty,"), f.Type)
	}
}
