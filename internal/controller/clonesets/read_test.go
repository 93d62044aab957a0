package clonesets

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestReadSet checks that a CloneSet that cannot be decoded keeps its metadata and status, and that the error
// names the field and the value.
func TestReadSet(t *testing.T) {
	for container, want := range map[string]string{
		`{name: main, image: "web:1", resources: {requests: {cpu: 100m}}}`: "",
		`{name: main, resources: {requests: {cpu: abc}}}`:                  `spec.template.spec.containers[0].resources.requests.cpu: "abc": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`,
		`{name: main, securityContext: {privileged: "yes"}}`:               `spec.template.spec.containers[0].securityContext.privileged: "yes": json: cannot unmarshal string into Go value of type bool`,
		`{name: main, livenessProbe: x}`:                                   `spec.template.spec.containers[0].livenessProbe: "x": json: cannot unmarshal string into Go value of type v1.Probe`,
	} {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(`{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, metadata: {name: web, uid: u, generation: 3},
			spec: {replicas: 2, template: {spec: {containers: [`+container+`]}}}, status: {replicas: 1}}`), &u.Object); err != nil {
			t.Fatal(err)
		}
		set := readSet(u)
		if set.Name != "web" || set.UID != "u" || set.Generation != 3 || set.Status.Replicas != 1 || set.Annotations[unreadable] != want {
			t.Errorf("%s: %+v", container, set)
		}
	}
}
