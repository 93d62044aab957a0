package kwok

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kwok/pkg/apis/action/v1alpha1"
	"sigs.k8s.io/kwok/pkg/kwokctl/recording"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// TestRecordingFormat: KWOK's type reads each change of our recordings, and we read what its type and its relative times produce.
func TestRecordingFormat(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	object := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web", "namespace": "shop", "creationTimestamp": "2026-01-02T03:04:06.000000Z"}}
	changes := []snapshot.Change{
		{After: time.Millisecond, Resource: deployments, Namespace: "shop", Name: "web", Method: snapshot.Create, Template: object},
		{After: time.Second, Resource: deployments, Namespace: "shop", Name: "web", Method: snapshot.Patch, Template: map[string]any{"spec": map[string]any{"replicas": int64(2)}}, Manager: "kubectl"},
		{After: 2 * time.Second, Resource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, Name: "node-0", Method: snapshot.Delete},
	}
	var ours bytes.Buffer
	w, err := snapshot.NewWriter(&ours, snapshot.YAML, false, snapshot.Header{Recording: true})
	for _, c := range changes {
		if err == nil {
			err = w.WriteChange(c)
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	theirs := bytes.NewBufferString("apiVersion: v1\nkind: Node\nmetadata: {name: node-0}\n")
	for _, doc := range bytes.Split(ours.Bytes(), []byte("---\n")) {
		var p v1alpha1.ResourcePatch
		if err := yaml.Unmarshal(doc, &p); err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		if p.TypeMeta != recording.ResourcePatchType {
			continue
		}
		data, err := json.Marshal(p)
		if err == nil {
			data, err = yaml.JSONToYAML(data)
		}
		if err != nil {
			t.Fatal(err)
		}
		theirs.WriteString("---\n")
		theirs.Write(recording.ReplaceTimeToRelative(start, data))
	}
	if !bytes.Contains(theirs.Bytes(), []byte("$(time-offset-nanosecond 1000000000)")) {
		t.Errorf("no relative time:\n%s", theirs)
	}
	r, err := snapshot.NewReader(bytes.NewReader(theirs.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for {
		obj, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, obj)
	}
	if len(objects) != 1 {
		t.Errorf("%d objects", len(objects))
	}
	for _, want := range changes {
		got, err := r.NextChange()
		if err != nil {
			t.Fatal(err)
		}
		snapshot.ResolveTimes(got.Template, start)
		if d := cmp.Diff(want, got, cmpopts.IgnoreFields(snapshot.Change{}, "Document", "Manager"), cmpopts.IgnoreUnexported(snapshot.Change{})); d != "" {
			t.Error(d)
		}
	}
	if _, err := r.NextChange(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
