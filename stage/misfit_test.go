package stage

import (
	"testing"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// TestMisfit checks the error for an object that does not match its kind: it names the field, the
// expected type and the actual one.
func TestMisfit(t *testing.T) {
	for text, want := range map[string]string{
		"spec: {nodeName: n}":                                          "spec.nodeName: want string, got boolean false (quote it)",
		"spec: {nodeName: 12}":                                         "spec.nodeName: want string, got number 12 (quote it)",
		"metadata: {labels: {a: yes}}":                                 "metadata.labels.a: want string, got boolean true (quote it)",
		"metadata: {labels: {a.b/c: 1.5}}":                             "metadata.labels[a.b/c]: want string, got number 1.5 (quote it)",
		"metadata: [a]":                                                "metadata: want object, got list",
		"spec: {containers: {a: b}}":                                   "spec.containers: want list, got object",
		"spec: {containers: [{name: a}, {name: b, image: [x]}]}":       "spec.containers[1].image: want string, got list",
		"spec: {containers: [{ports: [{containerPort: '80'}]}]}":       `spec.containers[0].ports[0].containerPort: want whole number, got string "80"`,
		"spec: {containers: [{ports: [{containerPort: 1e11}]}]}":       "spec.containers[0].ports[0].containerPort: want number of 32 bits, got number 100000000000",
		"spec: {containers: [{ports: [{containerPort: 5000000000}]}]}": "spec.containers[0].ports[0].containerPort: want number of 32 bits, got number 5000000000",
		"spec: {hostNetwork: 'true'}":                                  `spec.hostNetwork: want boolean, got string "true"`,
		"spec: {containers: [{resources: {limits: {cpu: lots}}}]}":     `spec.containers[0].resources.limits.cpu: cannot read string "lots" as Quantity: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`,
		"metadata: {creationTimestamp: soon}":                          `metadata.creationTimestamp: cannot read string "soon" as Time: parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006"`,
		"spec: {terminationGracePeriodSeconds: '1'}":                   `spec.terminationGracePeriodSeconds: want whole number, got string "1"`,
	} {
		data, err := yaml.YAMLToJSON([]byte("apiVersion: v1\nkind: Pod\n" + text))
		if err != nil {
			t.Fatal(err)
		}
		var values map[string]any
		if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &values); err != nil {
			t.Fatal(err)
		}
		if _, err := ObjectFrom(values); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}
