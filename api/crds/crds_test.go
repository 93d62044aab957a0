package crds

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	apps "github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	appsbeta "github.com/rehearse-k8s/rehearse/api/kruise/v1beta1"
	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
)

// kinds lists all definitions and the Go types of their versions, in the same order.
var kinds = []struct {
	definition func() []byte
	name, kind string
	scope      apiextensionsv1.ResourceScope
	versions   []version
}{
	{Stage, StageName, v1alpha1.StageKind, apiextensionsv1.ClusterScoped,
		[]version{{v1alpha1.GroupVersion, reflect.TypeFor[v1alpha1.Stage]()}}},
	{kubeletKind(0), "logs.kwok.x-k8s.io", v1alpha1.LogsKind, apiextensionsv1.NamespaceScoped,
		[]version{{v1alpha1.GroupVersion, reflect.TypeFor[v1alpha1.Logs]()}}},
	{kubeletKind(1), "clusterlogs.kwok.x-k8s.io", v1alpha1.ClusterLogsKind, apiextensionsv1.ClusterScoped,
		[]version{{v1alpha1.GroupVersion, reflect.TypeFor[v1alpha1.ClusterLogs]()}}},
	{kubeletKind(2), "attaches.kwok.x-k8s.io", v1alpha1.AttachKind, apiextensionsv1.NamespaceScoped,
		[]version{{v1alpha1.GroupVersion, reflect.TypeFor[v1alpha1.Attach]()}}},
	{kubeletKind(3), "clusterattaches.kwok.x-k8s.io", v1alpha1.ClusterAttachKind, apiextensionsv1.ClusterScoped,
		[]version{{v1alpha1.GroupVersion, reflect.TypeFor[v1alpha1.ClusterAttach]()}}},
	{kubeletKind(4), "execs.kwok.x-k8s.io", v1alpha1.ExecKind, apiextensionsv1.NamespaceScoped,
		[]version{{v1alpha1.GroupVersion, reflect.TypeFor[v1alpha1.Exec]()}}},
	{kubeletKind(5), "clusterexecs.kwok.x-k8s.io", v1alpha1.ClusterExecKind, apiextensionsv1.ClusterScoped,
		[]version{{v1alpha1.GroupVersion, reflect.TypeFor[v1alpha1.ClusterExec]()}}},
	{kubeletKind(6), "portforwards.kwok.x-k8s.io", v1alpha1.PortForwardKind, apiextensionsv1.NamespaceScoped,
		[]version{{v1alpha1.GroupVersion, reflect.TypeFor[v1alpha1.PortForward]()}}},
	{kubeletKind(7), "clusterportforwards.kwok.x-k8s.io", v1alpha1.ClusterPortForwardKind, apiextensionsv1.ClusterScoped,
		[]version{{v1alpha1.GroupVersion, reflect.TypeFor[v1alpha1.ClusterPortForward]()}}},
	{usageKind(0), "resourceusages.kwok.x-k8s.io", v1alpha1.ResourceUsageKind, apiextensionsv1.NamespaceScoped,
		[]version{{v1alpha1.GroupVersion, reflect.TypeFor[v1alpha1.ResourceUsage]()}}},
	{usageKind(1), "clusterresourceusages.kwok.x-k8s.io", v1alpha1.ClusterResourceUsageKind, apiextensionsv1.ClusterScoped,
		[]version{{v1alpha1.GroupVersion, reflect.TypeFor[v1alpha1.ClusterResourceUsage]()}}},
	{usageKind(2), "metrics.kwok.x-k8s.io", v1alpha1.MetricKind, apiextensionsv1.ClusterScoped,
		[]version{{v1alpha1.GroupVersion, reflect.TypeFor[v1alpha1.Metric]()}}},
	{CloneSet, CloneSetName, apps.Kind, apiextensionsv1.NamespaceScoped,
		[]version{{apps.GroupVersion, reflect.TypeFor[apps.CloneSet]()}, {appsbeta.GroupVersion, reflect.TypeFor[appsbeta.CloneSet]()}}},
}

// kubeletKind returns one of the definitions of Kubelet.
func kubeletKind(i int) func() []byte { return func() []byte { return Kubelet()[i] } }

// usageKind returns one of the definitions of Usage.
func usageKind(i int) func() []byte { return func() []byte { return Usage()[i] } }

type version struct {
	schema.GroupVersion
	goType reflect.Type
}

func eachVersion(t *testing.T, test func(t *testing.T, want version, got apiextensionsv1.CustomResourceDefinitionVersion)) {
	for _, k := range kinds {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(k.definition(), crd); err != nil {
			t.Fatal(err)
		}
		if crd.Name != k.name || crd.Spec.Names.Kind != k.kind || crd.Spec.Scope != k.scope || len(crd.Spec.Versions) != len(k.versions) {
			t.Fatalf("got %+v", crd.Spec)
		}
		for i, v := range k.versions {
			if crd.Spec.Group != v.Group || crd.Spec.Versions[i].Name != v.Version || crd.Spec.Versions[i].Storage != (i == 0) {
				t.Errorf("version %d of %s is %s of %s", i, k.name, crd.Spec.Versions[i].Name, crd.Spec.Group)
			}
			t.Run(v.String()+" "+k.kind, func(t *testing.T) { test(t, v, crd.Spec.Versions[i]) })
		}
	}
}

// TestStructural: the API server accepts the schema as structural.
func TestStructural(t *testing.T) {
	eachVersion(t, func(t *testing.T, _ version, v apiextensionsv1.CustomResourceDefinitionVersion) {
		if v.Subresources.Status == nil {
			t.Error("status is no subresource")
		}
		out := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, out, nil); err != nil {
			t.Fatal(err)
		}
		s, err := structuralschema.NewStructural(out)
		if err != nil {
			t.Fatal(err)
		}
		if wrong := structuralschema.ValidateStructural(nil, s); len(wrong) > 0 {
			t.Error(wrong.ToAggregate())
		}
	})
}

// TestFields: the schema contains every field of the Go types with its type, and no other field.
func TestFields(t *testing.T) {
	eachVersion(t, func(t *testing.T, want version, v apiextensionsv1.CustomResourceDefinitionVersion) {
		compare(t, "", want.goType, *v.Schema.OpenAPIV3Schema)
	})
}

// open are upstream types. The schema names only the fields for which it has rules, and preserves the others.
var open = []reflect.Type{reflect.TypeFor[corev1.PodTemplateSpec](), reflect.TypeFor[corev1.PersistentVolumeClaim]()}

// implicit are fields that the schema requires although Go code may leave them empty.
var implicit = map[string][]string{"": {"spec"}}

func compare(t *testing.T, path string, g reflect.Type, s apiextensionsv1.JSONSchemaProps) {
	if g.Kind() == reflect.Pointer {
		g = g.Elem()
	}
	if path != "" && s.Description == "" && path != ".metadata" && !strings.HasSuffix(path, "[]") {
		t.Errorf("%s has no description", path)
	}
	kind := map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer", reflect.Int32: "integer", reflect.Int64: "integer",
		reflect.Float64: "number", reflect.Slice: "array", reflect.Map: "object", reflect.Struct: "object",
	}[g.Kind()]
	switch g {
	case reflect.TypeFor[metav1.Time]():
		kind = "string"
		if s.Format != "date-time" {
			t.Errorf("%s is no date-time", path)
		}
	case reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString]():
		kind = ""
		if !s.XIntOrString {
			t.Errorf("%s is no int-or-string", path)
		}
	}
	if s.Type != kind {
		t.Errorf("%s is %q in the schema and %q in Go", path, s.Type, kind)
	}
	if g.Kind() == reflect.Int32 && s.Format != "int32" {
		t.Errorf("%s has format %q and is an int32", path, s.Format)
	}
	switch {
	case kind == "":
	case kind == "array":
		compare(t, path+"[]", g.Elem(), *s.Items.Schema)
	case g.Kind() == reflect.Map:
		compare(t, path+"[]", g.Elem(), *s.AdditionalProperties.Schema)
	case slices.Contains(open, g):
		partOf(t, path, g, s)
	case kind == "object" && path != ".metadata":
		compareFields(t, path, g, s)
	}
}

func compareFields(t *testing.T, path string, g reflect.Type, s apiextensionsv1.JSONSchemaProps) {
	var inGo, inSchema []string
	required := slices.Clone(implicit[path])
	eachField(g, func(name string, optional bool, f reflect.Type) {
		inGo = append(inGo, name)
		// A bool without omitempty has a default instead of being required.
		if !optional && s.Properties[name].Default == nil && !slices.Contains(required, name) {
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

// partOf checks that the Go type has every field that the schema names, with its type, and that the schema
// preserves the others.
func partOf(t *testing.T, path string, g reflect.Type, s apiextensionsv1.JSONSchemaProps) {
	if g.Kind() == reflect.Pointer {
		g = g.Elem()
	}
	switch {
	case s.Items != nil:
		partOf(t, path+"[]", g.Elem(), *s.Items.Schema)
	case s.AdditionalProperties != nil && g.Kind() == reflect.Map:
		partOf(t, path+"[]", g.Elem(), *s.AdditionalProperties.Schema)
	case len(s.Properties) > 0 && g.Kind() == reflect.Struct:
		if s.XPreserveUnknownFields == nil || !*s.XPreserveUnknownFields {
			t.Errorf("%s would lose fields that it does not name", path)
		}
		fields := map[string]reflect.Type{}
		eachField(g, func(name string, _ bool, f reflect.Type) { fields[name] = f })
		for name, p := range s.Properties {
			if f, ok := fields[name]; ok {
				partOf(t, path+"."+name, f, p)
			} else {
				t.Errorf("%s.%s is not in Go", path, name)
			}
		}
	case s.Type != "" && s.Type != "object" && s.Type != map[reflect.Kind]string{
		reflect.String: "string", reflect.Int32: "integer", reflect.Int64: "integer"}[g.Kind()]:
		t.Errorf("%s is %q in the schema and %s in Go", path, s.Type, g)
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

// TestPolicies: each policy has a binding, and the API accepts both.
func TestPolicies(t *testing.T) {
	bound := map[string]bool{}
	for doc := range strings.SplitSeq(string(CloneSetPolicies()), "\n---\n") {
		if strings.Contains(doc, "kind: ValidatingAdmissionPolicyBinding") {
			b := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
			if err := yaml.UnmarshalStrict([]byte(doc), b); err != nil {
				t.Fatal(err)
			}
			if _, ok := bound[b.Spec.PolicyName]; !ok {
				t.Errorf("%s binds %s, which comes later or never", b.Name, b.Spec.PolicyName)
			}
			bound[b.Spec.PolicyName] = true
			continue
		}
		p := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		if err := yaml.UnmarshalStrict([]byte(doc), p); err != nil {
			t.Fatal(err)
		}
		bound[p.Name] = false
	}
	for name, ok := range bound {
		if !ok || len(bound) != 2 {
			t.Errorf("%d policies, %s has a binding: %t", len(bound), name, ok)
		}
	}
}
