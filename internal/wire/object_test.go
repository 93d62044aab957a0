package wire

import (
	"encoding/json"
	"testing"

	kjson "k8s.io/apimachinery/pkg/util/json"
)

type referenceMeta struct {
	Name            string            `json:"name"`
	GenerateName    string            `json:"generateName"`
	Namespace       string            `json:"namespace"`
	UID             string            `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Annotations     map[string]string `json:"annotations"`
}

type referenceConditions struct {
	UID             *string `json:"uid"`
	ResourceVersion *string `json:"resourceVersion"`
}

// reference is what the API server's own JSON decoder makes of the fields that are read here.
type reference struct {
	Kind          string              `json:"kind"`
	Metadata      referenceMeta       `json:"metadata"`
	Preconditions referenceConditions `json:"preconditions"`
	DeleteOptions struct {
		Preconditions referenceConditions `json:"preconditions"`
	} `json:"deleteOptions"`
	Code    int32         `json:"code"`
	Details referenceMeta `json:"details"`
}

func (r *reference) object() object {
	o := object{
		kind: r.Kind, name: r.Metadata.Name, generateName: r.Metadata.GenerateName, namespace: r.Metadata.Namespace,
		uid: r.Metadata.UID, resourceVersion: r.Metadata.ResourceVersion,
		initialEnd: r.Metadata.Annotations["k8s.io/initial-events-end"] == "true",
	}
	for _, c := range []referenceConditions{r.Preconditions, r.DeleteOptions.Preconditions} {
		o.precondition = o.precondition || c.UID != nil || c.ResourceVersion != nil
		o.versionPrecondition = o.versionPrecondition || c.ResourceVersion != nil
	}
	if r.Kind == "Status" {
		o.code, o.name, o.uid = r.Code, r.Details.Name, r.Details.UID
	}
	return o
}

// FuzzJSON compares the scan with a decoder that reads everything.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"5"},"spec":{"a":[1,{"b":"}"}]}}`,
		`{"kind":"Status","metadata":{},"code":410,"details":{"name":"a","uid":"u"}}`,
		`{"preconditions":{"uid":"u"}}`, `{"kind":"Eviction","metadata":{},"deleteOptions":{"preconditions":{"resourceVersion":"1"}}}`,
		`{"metadata":{"name":null,"annotations":{"k8s.io/initial-events-end":"true","x":"\"\\"}},"kind":"n\u0061\n"}`,
		`{"a":-1.5e7,"b":true,"c":null,"d":[],"e":{},"metadata":{"name":"é\ud800"}}`, `[]`, `{`, `{"a"`, `{"a":}`, `{"a":1,}`, "",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = readJSON(data) // whatever it is, no panic
		var whole map[string]any
		if json.Unmarshal(data, &whole) != nil {
			return
		}
		delete(whole, "rows")            // Tables have a test of their own
		text, err := json.Marshal(whole) // which has no key twice
		if err != nil {
			t.Fatal(err)
		}
		var r reference
		if whole == nil || kjson.Unmarshal(text, &r) != nil {
			return
		}
		got, err := readJSON(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		want := r.object()
		if got.kind != "" && !moreThanMetadata(got.kind) { // read or not, as the order of the keys has it
			got.precondition, want.precondition = false, false
			got.versionPrecondition, want.versionPrecondition = false, false
		}
		if got != want {
			t.Fatalf("%s:\n got %+v\nwant %+v", text, got, want)
		}
	})
}

// FuzzProtobuf shows that no bytes make a reader panic.
func FuzzProtobuf(f *testing.F) {
	frame, err := ExpiredFrame("application/vnd.kubernetes.protobuf")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(frame)
	for _, kind := range []string{"Pod", "DeleteOptions", "Eviction", "PodList", "Status"} {
		f.Add(append([]byte("k8s\x00\x0a\x0f\x0a\x02v1\x12"), append([]byte{byte(len(kind))}, kind+"\x12\x06\x0a\x04\x0a\x02ab"...)...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const contentType = "application/vnd.kubernetes.protobuf"
		_, _ = DescribeEvent(contentType, data)
		_, _, _ = ReadAnswer(contentType, data)
		_, _, _ = ReadAnswer(contentType, append(append([]byte{}, protobufMagic...), data...))
		_ = Digest(data)
	})
}
