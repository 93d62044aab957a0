package wire

import (
	"encoding/json"
	"net/url"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
)

// TestOnlyUID: a delete keeps its options in every form that the API takes, and gets the UID. One
// that names another UID keeps that: it is meant for another object.
func TestOnlyUID(t *testing.T) {
	seconds, orphan := int64(7), metav1.DeletePropagationOrphan
	want := metav1.DeleteOptions{GracePeriodSeconds: &seconds, PropagationPolicy: &orphan, DryRun: []string{"All"}}
	want.TypeMeta = metav1.TypeMeta{APIVersion: "policy/v1", Kind: "DeleteOptions"}
	asJSON, err := json.Marshal(&want)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := want.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	outer, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, Raw: inner}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	asCBOR, err := direct.Marshal(&want)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		body  []byte
		query string
		uid   types.UID
	}{
		"JSON":        {body: asJSON, uid: "u"},
		"YAML":        {body: []byte("gracePeriodSeconds: 7\npropagationPolicy: Orphan\ndryRun: [All]\n"), uid: "u"},
		"protobuf":    {body: append([]byte("k8s\x00"), outer...), uid: "u"},
		"CBOR":        {body: append([]byte("\xd9\xd9\xf7"), asCBOR...), uid: "u"},
		"a query":     {query: "gracePeriodSeconds=7&propagationPolicy=Orphan&dryRun=All", uid: "u"},
		"another UID": {body: []byte(`{"gracePeriodSeconds":7,"propagationPolicy":"Orphan","dryRun":["All"],"preconditions":{"uid":"other"}}`), uid: "other"},
	} {
		query, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		body, err := OnlyUID(c.body, query, "u")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got metav1.DeleteOptions
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		if got.Preconditions == nil || got.Preconditions.UID == nil || *got.Preconditions.UID != c.uid ||
			got.GracePeriodSeconds == nil || *got.GracePeriodSeconds != 7 || got.PropagationPolicy == nil || *got.PropagationPolicy != orphan || len(got.DryRun) != 1 {
			t.Errorf("%s: %s", name, body)
		}
	}
	if _, err := OnlyUID([]byte(`{"gracePeriodSeconds":"seven"}`), nil, "u"); err == nil {
		t.Error("a body that is no DeleteOptions was accepted")
	}
}
