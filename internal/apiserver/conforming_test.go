package apiserver

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/managedfields"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// builtIn returns upstream's converter of all built-in kinds with metadata, and these kinds.
func builtIn(t testing.TB) (managedfields.TypeConverter, []schema.GroupVersionKind) {
	t.Helper()
	config := genericapiserver.DefaultOpenAPIV3Config(generatedopenapi.GetOpenAPIDefinitions, openapinamer.NewDefinitionNamer(legacyscheme.Scheme))
	var names []string
	var kinds []schema.GroupVersionKind
	for kind, goType := range legacyscheme.Scheme.AllKnownTypes() {
		if o, ok := reflect.New(goType).Interface().(metav1.Object); ok && kind.Version != runtime.APIVersionInternal {
			kinds, names = append(kinds, kind), append(names, util.GetCanonicalTypeName(o))
		}
	}
	definitions, err := builder3.BuildOpenAPIDefinitionsForResources(config, names...)
	if err != nil {
		t.Fatal(err)
	}
	converter, err := managedfields.NewTypeConverter(definitions, false)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int { return bytes.Compare([]byte(a.String()), []byte(b.String())) })
	return converter, kinds
}

// randomObject returns a random object of a kind, without managed fields.
func randomObject(t testing.TB, kind schema.GroupVersionKind, seed int64) runtime.Object {
	t.Helper()
	o, err := legacyscheme.Scheme.New(kind)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	randfill.NewWithSeed(seed).NilChance(.4).NumElements(0, 3).MaxDepth(12).Funcs(
		func(q *resource.Quantity, _ randfill.Continue) {
			switch *q = *resource.NewMilliQuantity(r.Int64N(5000), resource.DecimalSI); r.IntN(3) {
			case 0:
				*q = resource.MustParse(q.String())
			case 1: // quantities of the same value that keep different texts
				*q = resource.MustParse([]string{"1.500", "1500m", "+1500m", "5", "+5", "05"}[r.IntN(6)])
			}
		},
		func(t *metav1.Time, _ randfill.Continue) { *t = metav1.Unix(r.Int64N(2e9), 0) },
		func(t *metav1.MicroTime, _ randfill.Continue) {
			*t = metav1.NewMicroTime(metav1.Unix(r.Int64N(2e9), 0).Time)
		},
		func(i *intstr.IntOrString, _ randfill.Continue) {
			if *i = intstr.FromInt32(r.Int32N(99)); r.IntN(2) == 0 {
				*i = intstr.FromString(fmt.Sprint("p", r.IntN(9)))
			}
		},
		func(raw *runtime.RawExtension, _ randfill.Continue) {
			raw.Raw = []byte([]string{`{"a":{"b":1}}`, `{}`, `[1]`, `"text"`}[r.IntN(4)])
		},
		func(f *[]metav1.ManagedFieldsEntry, _ randfill.Continue) { *f = nil },
		func(s *string, _ randfill.Continue) {
			if *s = ""; r.IntN(6) > 0 {
				*s = fmt.Sprint("s", r.IntN(20))
			}
		},
	).Fill(o)
	o.GetObjectKind().SetGroupVersionKind(kind)
	return o
}

// TestConformingKinds: no object of a kind that conforms to its schema fails upstream's validation. Some objects of the other
// kinds do.
func TestConformingKinds(t *testing.T) {
	upstream, kinds := builtIn(t)
	ours := newTypeConverter(upstream)
	const objects = 60
	failing := map[string]error{} // by kind, in any version
	conforming := map[string]bool{}
	for _, kind := range kinds {
		var failure error
		var conforms bool
		for seed := range int64(objects) {
			o := randomObject(t, kind, seed)
			v, err := upstream.ObjectToTyped(o, typed.AllowDuplicates)
			if err != nil {
				failure = err
				continue
			}
			key := kindAndType{kind, reflect.TypeOf(o)}
			ours.learn(key, v)
			conforms = ours.kinds[key].conforms
		}
		if conforms && failure != nil {
			t.Errorf("%s conforms, but %v", kind, failure)
		}
		conforming[kind.Kind] = conforming[kind.Kind] || conforms
		if failure != nil {
			failing[kind.Kind] = failure
		}
	}
	for _, kind := range []string{"Pod", "Node", "Lease", "Event", "Job", "CronJob", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Service", "EndpointSlice", "ConfigMap", "Secret", "Namespace", "HorizontalPodAutoscaler", "PersistentVolumeClaim"} {
		if !conforming[kind] {
			t.Errorf("%s does not conform", kind)
		}
	}
	for kind, fails := range map[string]bool{"ServiceAccount": true, "FlowSchema": true, "PriorityLevelConfiguration": true, "ControllerRevision": false, "ResourceClaim": false} {
		if conforming[kind] || (failing[kind] != nil) != fails {
			t.Errorf("%s: conforms %v, fails with %v", kind, conforming[kind], failing[kind])
		}
	}
}

// A struct of each rule of conforming.
type (
	plain struct {
		Name  string `json:"name"`
		Count int32  `json:"count,omitempty"`
	}
	optional struct {
		Name string `json:"name,omitempty"`
	}
	nested struct {
		Self *nested `json:"self"`
	}
	twice struct {
		Atomic []*string `json:"atomic"`
		Set    []*string `json:"set"`
	}
	onlyAtomic struct {
		Atomic []*string `json:"atomic"`
	}
	embedding struct {
		plain `json:",inline"`
		Other bool `json:"other"`
	}
)

const conformingSchema = `types:
- {name: string, scalar: string}
- {name: numeric, scalar: numeric}
- {name: boolean, scalar: boolean}
- {name: untyped, scalar: untyped}
- {name: plain, map: {fields: [{name: name, type: {scalar: string}}, {name: count, type: {scalar: numeric}}]}}
- {name: embedding, map: {fields: [{name: name, type: {scalar: string}}, {name: count, type: {scalar: numeric}}, {name: other, type: {scalar: boolean}}]}}
- {name: less, map: {fields: [{name: name, type: {scalar: string}}]}}
- {name: defaulted, map: {fields: [{name: name, type: {scalar: string}, default: a}]}}
- {name: nested, map: {fields: [{name: self, type: {namedType: nested}}]}}
- {name: strings, map: {elementType: {scalar: string}}}
- {name: set, list: {elementType: {scalar: string}, elementRelationship: associative}}
- {name: atomic, list: {elementType: {scalar: string}, elementRelationship: atomic}}
- {name: twice, map: {fields: [{name: atomic, type: {namedType: atomic}}, {name: set, type: {namedType: atomic, elementRelationship: associative}}]}}
- {name: keyed, list: {elementType: {namedType: plain}, elementRelationship: associative, keys: [name]}}
- {name: keyed-or-not, list: {elementType: {namedType: less}, elementRelationship: associative, keys: [name]}}
- {name: keyed-default, list: {elementType: {namedType: defaulted}, elementRelationship: associative, keys: [name]}}
- {name: any, scalar: untyped, map: {elementType: {namedType: any}}, list: {elementType: {namedType: any}, elementRelationship: atomic}}
`

// TestConformingRules: what a type must have for all its values to conform to a schema.
func TestConformingRules(t *testing.T) {
	parser, err := typed.NewParser(conformingSchema)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		value  any
		schema string
		want   bool
	}{
		{"", "string", true}, {[]byte{}, "string", true}, {"", "numeric", false}, {int64(0), "numeric", true}, {uint64(0), "numeric", false},
		{true, "boolean", true}, {true, "untyped", true}, {new(string), "string", true}, {"", "strings", false}, {"", "unknown", false},
		{metav1.Time{}, "string", true}, {&metav1.MicroTime{}, "string", true}, {resource.Quantity{}, "string", true},
		{intstr.IntOrString{}, "untyped", true}, {intstr.IntOrString{}, "string", false}, {metav1.Time{}, "any", true},
		{runtime.RawExtension{}, "any", false}, {metav1.FieldsV1{}, "any", false},
		{plain{}, "plain", true}, {plain{}, "less", false}, {plain{}, "string", false}, {plain{}, "any", true}, {embedding{}, "embedding", true},
		{embedding{}, "plain", false}, {nested{}, "nested", false},
		{map[string]string{}, "strings", true}, {map[string]int{}, "strings", false}, {map[string]string{}, "plain", false},
		{[]string{}, "atomic", true}, {[]string{}, "set", true}, {[]*string{}, "atomic", true}, {[]*string{}, "set", false}, {[]string{}, "plain", false},
		{[]metav1.Time{}, "atomic", true}, {[]metav1.Time{}, "set", false}, {[][]byte{}, "set", false}, {[]int32{}, "set", false},
		{twice{}, "twice", false}, {onlyAtomic{}, "twice", true},
		{[]plain{}, "keyed", true}, {[]*plain{}, "keyed", false}, {[]optional{}, "keyed-or-not", false}, {[]optional{}, "keyed-default", true},
	} {
		p := parser.Type(c.schema)
		if got := newConforming(p.Schema).all(reflect.TypeOf(c.value), p.TypeRef); got != c.want {
			t.Errorf("%T as %s: %v, want %v", c.value, c.schema, got, c.want)
		}
	}
}
