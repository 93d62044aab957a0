package clonesetapi

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

func patch(t *testing.T, u *unstructured.Unstructured, text string) (*unstructured.Unstructured, error) {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(resource(u)).Namespace("default").Patch(t.Context(), u.GetName(), types.MergePatchType, data, metav1.PatchOptions{})
}

func TestSelectorNeverChanges(t *testing.T) {
	for _, text := range []string{alpha, beta} {
		u := create(t, parse(text))
		_, err := patch(t, u, "spec: {selector: {matchLabels: {tier: front}}, template: {metadata: {labels: {tier: front}}}}")
		checkRejected(t, u.GetAPIVersion(), err, "spec.selector", "never changes")
	}
}

// inPlace has several containers, with amounts of cpu and memory.
const inPlace = `{template: {metadata: {labels: {app: web}}, spec: {
	initContainers: [{name: i, image: "i:1"}],
	containers: [{name: a, image: "a:1", resources: {requests: {cpu: 100m, memory: 1Gi, example.com/gpu: 1}, limits: {cpu: 200m, example.com/gpu: 1}}},
	             {name: b, image: "b:1"}]}}}`

// TestInPlaceOnly checks which changes of the template are rejected with InPlaceOnly.
func TestInPlaceOnly(t *testing.T) {
	const a, b = `{name: a, image: "a:1", resources: {requests: {cpu: 100m, memory: 1Gi, example.com/gpu: 1}, limits: {cpu: 200m, example.com/gpu: 1}}}`, `{name: b, image: "b:1"}`
	for name, c := range map[string]struct{ spec, field, reason string }{
		"image":                      {`containers: [{name: a, image: "a:2", resources: {requests: {cpu: 100m, memory: 1Gi, example.com/gpu: 1}, limits: {cpu: 200m, example.com/gpu: 1}}}, ` + b + `]`, "", ""},
		"amounts":                    {`containers: [{name: a, image: "a:1", resources: {requests: {cpu: 150m, memory: 2Gi, example.com/gpu: 1}, limits: {cpu: 0.5, example.com/gpu: 1}}}, ` + b + `]`, "", ""},
		"amounts for the first time": {`containers: [` + a + `, {name: b, image: "b:1", resources: {requests: {cpu: 1}}}]`, "", ""},
		"nothing":                    {`containers: [` + a + `, ` + b + `]`, "", ""},
		"environment":                {`containers: [` + a + `, {name: b, image: "b:1", env: [{name: X, value: z}]}]`, "containers[b].env", "InPlaceIfPossible or ReCreate"},
		"another resource":           {`containers: [{name: a, image: "a:1", resources: {requests: {cpu: 100m, memory: 1Gi, example.com/gpu: 2}, limits: {cpu: 200m, example.com/gpu: 2}}}, ` + b + `]`, "containers[a].resources", "InPlaceOnly"},
		"a resource removed":         {`containers: [{name: a, image: "a:1", resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {cpu: 200m}}}, ` + b + `]`, "containers[a].resources", "InPlaceOnly"},
		"claims of resources":        {`containers: [` + a + `, {name: b, image: "b:1", resources: {claims: [{name: x}]}}]`, "containers[b].resources", "InPlaceOnly"},
		"one more container":         {`containers: [` + a + `, ` + b + `, {name: c, image: c}]`, "spec.template.spec: containers", "InPlaceOnly"},
		"one container less":         {`containers: [` + a + `]`, "spec.template.spec: containers", "InPlaceOnly"},
		"their order":                {`containers: [` + b + `, ` + a + `]`, "spec.template.spec: containers", "InPlaceOnly"},
		"image of init container":    {`initContainers: [{name: i, image: "i:2"}]`, "initContainers", "InPlaceOnly"},
		"a field of the pod":         {`priorityClassName: high`, "spec.template.spec: priorityClassName", "InPlaceOnly"},
		"a field removed":            {`initContainers: null`, "spec.template.spec: initContainers", "InPlaceOnly"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, u := range []*unstructured.Unstructured{
				with(with(alpha, "updateStrategy: {type: InPlaceOnly}"), inPlace),
				with(with(beta, "updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceOnly}}"), inPlace),
			} {
				u = create(t, u)
				_, err := patch(t, u, "spec: {template: {spec: {"+c.spec+"}}}")
				if c.reason != "" {
					checkRejected(t, u.GetAPIVersion(), err, c.field, c.reason)
				} else if err != nil {
					t.Errorf("%s: %v", u.GetAPIVersion(), err)
				}
			}
		})
	}
	t.Run("metadata", func(t *testing.T) {
		u := create(t, with(alpha, "updateStrategy: {type: InPlaceOnly}"))
		if _, err := patch(t, u, "spec: {template: {metadata: {labels: {v: b}, annotations: {c: d}}}}"); err != nil {
			t.Error(err)
		}
	})
	t.Run("quality of service", func(t *testing.T) {
		u := create(t, with(alpha, "updateStrategy: {type: InPlaceOnly}"))
		_, err := patch(t, u, `spec: {template: {spec: {containers: [{name: a, image: "a:1", resources: {limits: {cpu: 1, memory: 1Gi}}}]}}}`)
		checkRejected(t, "Guaranteed", err, "spec.template.spec.containers", "Guaranteed that are BestEffort")
		_, err = patch(t, u, `spec: {template: {spec: {containers: [{name: a, image: "a:1", resources: {requests: {cpu: 1}}}]}}}`)
		checkRejected(t, "Burstable", err, "spec.template.spec.containers", "Burstable that are BestEffort")
	})
	t.Run("with another type in the same write", func(t *testing.T) {
		u := create(t, with(alpha, "updateStrategy: {type: InPlaceOnly}"))
		if _, err := patch(t, u, "spec: {updateStrategy: {type: InPlaceIfPossible}, template: {spec: {priorityClassName: high}}}"); err != nil {
			t.Error(err)
		}
		// The other types accept changes that InPlaceOnly rejects.
		if _, err := patch(t, u, "spec: {template: {spec: {priorityClassName: low}}}"); err != nil {
			t.Error(err)
		}
		_, err := patch(t, u, "spec: {updateStrategy: {type: InPlaceOnly}, template: {spec: {priorityClassName: high}}}")
		checkRejected(t, "back", err, "priorityClassName", "InPlaceOnly")
	})
	t.Run("OnDelete ignores the policy", func(t *testing.T) {
		u := create(t, with(beta, "updateStrategy: {type: OnDelete, rollingUpdate: {podUpdatePolicy: InPlaceOnly}}"))
		if _, err := patch(t, u, "spec: {template: {spec: {priorityClassName: low}}}"); err != nil {
			t.Error(err)
		}
	})
}

// TestEditThroughTheOtherVersion reads one version, writes the other, and reads again.
func TestEditThroughTheOtherVersion(t *testing.T) {
	u := create(t, with(beta, `{scaleStrategy: {enablePVCReuse: true, excludePreparingDelete: true},
		updateStrategy: {type: OnDelete, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, partition: 30%, inPlaceUpdateStrategy: {imagePreDownloadParallelism: 5}}}}`))
	before := u.Object["spec"]
	old := read(t, v1alpha1, u.GetName())
	if got := get(t, old, "spec", "updateStrategy", "type"); got != "OnDelete" {
		t.Errorf("type %v", got)
	}
	// A client that knows only v1alpha1 reads, changes and writes the whole object.
	set(old, int64(4), "spec", "replicas")
	if _, err := client.Resource(v1alpha1).Namespace("default").Update(t.Context(), old, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	now := read(t, v1beta1, u.GetName())
	set(now, int64(1), "spec", "replicas")
	same(t, before, now.Object["spec"])
	if a := now.GetAnnotations(); len(a) > 0 {
		t.Errorf("annotations %v", a)
	}
	if now.GetGeneration() != 2 {
		t.Errorf("generation %d", now.GetGeneration())
	}
	// kubectl label writes the newest version, in which the label has become a field.
	if _, err := patch(t, u, `metadata: {labels: {apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "false"}}`); err != nil {
		t.Fatal(err)
	}
	if got := get(t, read(t, v1beta1, u.GetName()), "spec", "scaleStrategy", "excludePreparingDelete"); got != false {
		t.Errorf("the label that was set through v1beta1 has no effect: %v", got)
	}
}

// TestWritingTheSameIsNoChange checks that conversion does not change an object: otherwise each apply would
// create a new generation.
func TestWritingTheSameIsNoChange(t *testing.T) {
	for _, u := range []*unstructured.Unstructured{
		parse(alpha), parse(beta),
		with(alpha, "updateStrategy: {type: OnDelete, inPlaceUpdateStrategy: {imagePreDownloadTimeoutSeconds: 3}}"),
		with(beta, "{scaleStrategy: {podsToDelete: []}, updateStrategy: {type: OnDelete, rollingUpdate: {paused: false, scatterStrategy: [], inPlaceUpdateStrategy: {}}}}"),
		with(beta, "updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceOnly, inPlaceUpdateStrategy: {imagePreDownloadMinUpdatedReadyPods: 20%}}}"),
	} {
		u.SetName("same-" + map[bool]string{true: "alpha", false: "beta"}[u.GetAPIVersion() == "apps.kruise.io/v1alpha1"])
		for _, other := range []string{"", "apply in between"} {
			first := apply(t, u, "test")
			again := apply(t, u, "test")
			if first.GetResourceVersion() != again.GetResourceVersion() {
				t.Errorf("%s %s\n%v\n%v", u.GetAPIVersion(), other, first.Object, again.Object)
			}
			// The owner of a field in the other version keeps it.
			_, err := patch(t, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": map[bool]string{true: "apps.kruise.io/v1beta1", false: "apps.kruise.io/v1alpha1"}[u.GetAPIVersion() == "apps.kruise.io/v1alpha1"],
				"metadata":   map[string]any{"name": u.GetName()},
			}}, "spec: {minReadySeconds: 3}")
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := client.Resource(v1alpha1).Namespace("default").Delete(t.Context(), u.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func apply(t *testing.T, u *unstructured.Unstructured, manager string) *unstructured.Unstructured {
	t.Helper()
	out, err := client.Resource(resource(u)).Namespace("default").Apply(t.Context(), u.GetName(), u, metav1.ApplyOptions{FieldManager: manager})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func same(t *testing.T, want, got any) {
	t.Helper()
	a, _ := json.Marshal(want)
	b, _ := json.Marshal(got)
	if string(a) != string(b) {
		t.Errorf("\nwant %s\ngot  %s", a, b)
	}
}
