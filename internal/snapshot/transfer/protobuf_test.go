package transfer

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"
)

// TestRepresents: objects that need JSON, because their Go type would lose something of them or change it silently.
func TestRepresents(t *testing.T) {
	for spec, want := range map[string]bool{
		"{containers: [{name: a, image: b, resources: {limits: {cpu: 1.5}}}]}":                   false, // the API server accepts a fraction here
		"{containers: [{name: a, image: b, resources: {limits: {cpu: 1500m}}}], nodeName: null}": true,
		"{terminationGracePeriodSeconds: 2147483647, securityContext: {runAsUser: 0}}":           true,
		"{terminationGracePeriodSeconds: 2147483648}":                                            false, // valid, but no shorter integer would be
		"{priority: 4294967297}":                  false, // 1 in 32 bits
		"{priority: -2147483649}":                 false,
		"{priority: one}":                         false,
		"{newField: 1}":                           false,
		"{containers: [{name: a, newField: {}}]}": false,
		"{Priority: 1}":                           false,
		"{containers: {name: a}}":                 false,
		"{containers: [{name: a, livenessProbe: {httpGet: {port: http}}}, {name: b, ports: []}]}": true,
	} {
		content := map[string]any{}
		if err := yaml.Unmarshal([]byte("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: "+spec+"}"), &content); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(data); err != nil { // integers as a snapshot has them
			t.Fatal(err)
		}
		if got := represents(&corev1.Pod{}, obj.Object); got != want {
			t.Errorf("%s: %v", spec, got)
		}
	}
	if represents(&corev1.Pod{}, map[string]any{"spec": map[string]any{"priority": float64(1)}}) {
		t.Error("1.0 was taken for an integer")
	}
}

// TestRepresentsAsJSON: random objects of each kind of client-go, read from a snapshot and sent in protobuf, are what the API server reads from JSON.
func TestRepresentsAsJSON(t *testing.T) {
	encoding := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	kinds, represented := 0, 0
	for gvk := range scheme.Scheme.AllKnownTypes() {
		obj, err := scheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := obj.(written); !ok || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		kinds++
		for seed := range uint64(20) {
			original := obj.DeepCopyObject()
			fill(seed).Fill(original)
			original.GetObjectKind().SetGroupVersionKind(gvk)
			data, err := json.Marshal(original)
			if err != nil {
				t.Fatalf("%s: %v", gvk, err)
			}
			saved := &unstructured.Unstructured{}
			if err := saved.UnmarshalJSON(data); err != nil {
				t.Fatalf("%s: %v", gvk, err)
			}
			got, want := obj.DeepCopyObject(), obj.DeepCopyObject()
			if !represents(got, saved.Object) {
				continue
			}
			represented++
			if strict, err := sigsjson.UnmarshalStrict(data, want); err != nil || len(strict) > 0 {
				t.Fatalf("%s: %v %v", gvk, err, strict)
			}
			sent, err := runtime.Encode(encoding, got)
			if err != nil {
				t.Fatalf("%s: %v", gvk, err)
			}
			if got, err = runtime.Decode(encoding, sent); err != nil {
				t.Fatalf("%s: %v", gvk, err)
			}
			if !equality.Semantic.DeepEqual(got, want) {
				t.Errorf("%s, seed %d: in protobuf %+v, in JSON %+v", gvk, seed, got, want)
			}
		}
	}
	if kinds < 100 || represented < kinds*15 {
		t.Errorf("only %d objects of %d kinds", represented, kinds)
	}
}

// fill returns a filler of random objects whose integers have 32 bits.
func fill(seed uint64) *randfill.Filler {
	r := rand.New(rand.NewPCG(seed, 0))
	return randfill.NewWithSeed(int64(seed)).NilChance(.3).NumElements(0, 3).MaxDepth(12).Funcs(
		func(q *quantity.Quantity, _ randfill.Continue) {
			*q = quantity.MustParse(fmt.Sprintf("%dm", r.IntN(5000)))
		},
		func(t *metav1.Time, _ randfill.Continue) { *t = metav1.Unix(r.Int64N(2e9), 0) },
		func(t *metav1.MicroTime, _ randfill.Continue) {
			*t = metav1.NewMicroTime(metav1.Unix(r.Int64N(2e9), 5000).Time)
		},
		func(i *intstr.IntOrString, _ randfill.Continue) {
			if *i = intstr.FromInt32(r.Int32()); r.IntN(2) == 0 {
				*i = intstr.FromString("50%")
			}
		},
		func(raw *runtime.RawExtension, _ randfill.Continue) { raw.Raw = []byte(`{"a":1}`) },
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawBytes([]byte(`{"f:a":{}}`)) },
		func(*metav1.TypeMeta, randfill.Continue) {}, // protobuf has none inside of objects; the API server sets that of volumeClaimTemplates
		func(n *int64, _ randfill.Continue) { *n = int64(r.Int32()) },
		func(n *int32, _ randfill.Continue) { *n = r.Int32() },
		func(s *string, _ randfill.Continue) { *s = fmt.Sprintf("%c%d", 'a'+rune(r.IntN(26)), r.IntN(100)) },
	)
}
