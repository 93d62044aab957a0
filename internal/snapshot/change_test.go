package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
)

// writeRecording returns a recording of one object and these changes.
func writeRecording(t interface{ Fatal(...any) }, f Format, compressed bool, changes ...Change) []byte {
	var b bytes.Buffer
	w, err := NewWriter(&b, f, compressed, Header{Recording: true})
	if err == nil {
		err = w.Write(&unstructured.Unstructured{Object: named("first", nil)})
	}
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
	if w.Changes() != len(changes) {
		t.Fatal("wrong number of changes")
	}
	return b.Bytes()
}

// readRecording returns the number of objects of a file, and its changes.
func readRecording(data []byte) (objects int, changes []Change, err error) {
	r, err := NewReader(bytes.NewReader(data))
	if err != nil {
		return 0, nil, err
	}
	for err == nil {
		_, err = r.Next()
	}
	for err == io.EOF {
		c, e := r.NextChange()
		if e == io.EOF {
			if r.Changes() != len(changes) {
				return 0, nil, fmt.Errorf("%d changes of %d", r.Changes(), len(changes))
			}
			return r.Objects(), changes, nil
		}
		if e == nil {
			changes = append(changes, c)
			continue
		}
		err = e
	}
	return r.Objects(), changes, err
}

func genChanges(t *rapid.T) (changes []Change) {
	after := time.Duration(0)
	for i := range rapid.IntRange(0, 4).Draw(t, "changes") {
		after += time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "pause"))
		c := Change{After: after, Resource: schema.GroupVersionResource{Group: rapid.SampledFrom([]string{"", "apps"}).Draw(t, "group"), Version: "v1", Resource: "things"},
			Namespace: "default", Name: fmt.Sprint("o", i), Method: rapid.SampledFrom([]Method{Create, Patch, Delete}).Draw(t, "method"),
			Manager: rapid.SampledFrom([]string{"", "kubectl"}).Draw(t, "manager")}
		switch c.Method {
		case Create:
			c.Template = named(c.Name, genMap(2).Draw(t, "template"))
		case Patch:
			c.Template = genMap(2).Draw(t, "template")
		}
		changes = append(changes, c)
	}
	return changes
}

// TestRecordingProperty: a reader returns the changes that were written, and no beginning of a recording is read as a complete one.
func TestRecordingProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, compressed := rapid.SampledFrom([]Format{YAML, JSONLines}).Draw(t, "format"), rapid.Bool().Draw(t, "compressed")
		changes := genChanges(t)
		data := writeRecording(t, f, compressed, changes...)
		objects, got, err := readRecording(data)
		if err != nil || objects != 1 {
			t.Fatalf("%v: %d objects", err, objects)
		}
		if d := cmp.Diff(changes, got, cmpopts.IgnoreFields(Change{}, "Document", "number"), cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
		for i, c := range got {
			if c.Document != i+4 { // header, object, end of the objects
				t.Fatalf("change %d is document %d", i, c.Document)
			}
		}
		cut := rapid.IntRange(0, len(data)-2).Draw(t, "cut")
		var bad *FormatError
		if _, got, err = readRecording(data[:cut]); !errors.As(err, &bad) && (err != nil || len(got) < len(changes)) {
			t.Fatalf("cut at %d of %d: %v", cut, len(data), err)
		}
	})
}

// kwokRecording is a recording as KWOK writes it: keys sorted, no header, and times relative to the start.
const kwokRecording = `apiVersion: v1
kind: ConfigMap
metadata:
  creationTimestamp: $(time-offset-nanosecond -5000000000)
  name: a
  namespace: default
---
apiVersion: action.kwok.x-k8s.io/v1alpha1
durationNanosecond: 1000000
kind: ResourcePatch
method: patch
resource:
  resource: configmaps
  version: v1
target:
  name: a
  namespace: default
template:
  data:
    at: $(time-offset-nanosecond 1500000000)
---
apiVersion: action.kwok.x-k8s.io/v1alpha1
durationNanosecond: 2000000
kind: ResourcePatch
method: delete
resource:
  resource: configmaps
  version: v1
target:
  name: a
  namespace: default
`

// TestKWOKRecording: a recording of KWOK is read, and its relative times are resolved.
func TestKWOKRecording(t *testing.T) {
	r, err := NewReader(strings.NewReader(kwokRecording))
	if err != nil || !r.IsKWOK() {
		t.Fatal(err)
	}
	obj, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ResolveTimes(obj.Object, start)
	if got, _, _ := unstructured.NestedString(obj.Object, "metadata", "creationTimestamp"); got != "2026-01-02T03:04:00.000000Z" {
		t.Error(got)
	}
	if !obj.GetCreationTimestamp().Time.Equal(start.Add(-5 * time.Second)) {
		t.Error(obj.GetCreationTimestamp())
	}
	objects, changes, err := readRecording([]byte(kwokRecording))
	if err != nil || objects != 1 || len(changes) != 2 {
		t.Fatalf("%v: %d objects, %v", err, objects, changes)
	}
	if got := ResolveTimes(changes[0].Template, start).(map[string]any)["data"].(map[string]any)["at"]; got != "2026-01-02T03:04:06.500000Z" {
		t.Error(got)
	}
	want := Change{Document: 3, After: 2 * time.Millisecond, Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespace: "default", Name: "a", Method: Delete}
	if d := cmp.Diff(want, changes[1], cmpopts.IgnoreUnexported(Change{})); d != "" {
		t.Error(d)
	}
	if got := ResolveTimes([]any{"from $(time-offset-nanosecond 0) to $(time-offset-nanosecond 1000)", "$(time-offset-nanosecond 99999999999999999999)", int64(1)}, start); !cmp.Equal(got,
		[]any{"from 2026-01-02T03:04:05.000000Z to 2026-01-02T03:04:05.000001Z", "$(time-offset-nanosecond 99999999999999999999)", int64(1)}) {
		t.Error(got)
	}
}

func TestRecordingErrors(t *testing.T) {
	change := func(more string) string {
		return "---\napiVersion: action.kwok.x-k8s.io/v1alpha1\nkind: ResourcePatch\nresource: {version: v1, resource: configmaps}\n" + more + "\n"
	}
	const target = "target: {name: a, namespace: default}\n"
	valid := change(target + "method: delete\ndurationNanosecond: 5")
	head := "apiVersion: " + APIVersion + "\nkind: Snapshot\nspec: {recording: true}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n"
	const plain = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n"
	objectsEnd := "---\napiVersion: " + APIVersion + "\nkind: SnapshotEnd\nobjects: 1\n"
	begin, end := head+objectsEnd, "---\napiVersion: "+APIVersion+"\nkind: RecordingEnd\n"
	numbered := func(n int) string {
		return strings.Replace(valid, "resource:", fmt.Sprintf("metadata: {annotations: {%s: %q}}\nresource:", NumberAnnotation, fmt.Sprint(n)), 1)
	}
	for name, c := range map[string]struct{ data, want string }{
		"complete":              {begin + valid + valid + end, ""},
		"no change":             {begin + end, ""},
		"numbered":              {begin + numbered(1) + numbered(2) + end, ""},
		"no end":                {begin + valid, "the recording is truncated: it ends after document 4 with 1 changes, without its last document (kind RecordingEnd)"},
		"no changes":            {begin, "the recording is truncated: it ends after document 3 with 0 changes"},
		"cut":                   {begin + valid + change(target+"method: dele"), "the recording is truncated: it ends after document 4 with 1 changes"},
		"fewer changes":         {begin + valid + end + "changes: 2\n", "document 5: the file has 1 changes, and its last document says 2"},
		"gap":                   {begin + numbered(1) + numbered(3) + end, "document 5: the recording has a gap: this is change 3, and change 2 must follow change 1"},
		"gap at the start":      {begin + numbered(2) + end, "document 4: the recording has a gap: this is change 2, and change 1 must follow change 0"},
		"no number":             {begin + strings.Replace(numbered(1), `"1"`, "x", 1) + end, "document 4: annotation rehearse-k8s.github.io/change: \"x\" must be a number from 1"},
		"time goes back":        {begin + valid + strings.Replace(valid, ": 5", ": 4", 1) + end, "document 5: the time of the change is 4ns after the start, and the change before it is 5ns after the start"},
		"negative time":         {begin + strings.Replace(valid, ": 5", ": -1", 1) + end, "document 4: durationNanosecond -1 must be a whole number that is not negative"},
		"no time":               {begin + strings.Replace(valid, "durationNanosecond: 5", "", 1) + end, "document 4: durationNanosecond <nil> must be a whole number"},
		"unknown method":        {begin + strings.Replace(valid, "delete", "replace", 1) + end, "document 4: method \"replace\": must be create, patch or delete"},
		"no target":             {begin + strings.Replace(valid, target, "", 1) + end, "document 4: target.name is required"},
		"no resource":           {begin + strings.Replace(valid, "resource: {version: v1, resource: configmaps}", "", 1) + end, "document 4: resource.version and resource.resource are required"},
		"no patch":              {begin + strings.Replace(valid, "delete", "patch", 1) + end, "document 4: method patch requires template, an object"},
		"no object":             {begin + change(target+"method: create\ndurationNanosecond: 5\ntemplate: {}") + end, "document 4: template: the document is not an object"},
		"another object":        {begin + change(target+"method: create\ndurationNanosecond: 5\ntemplate: {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}") + end, "document 4: template is the object /b, and target is default/a"},
		"newer change":          {begin + strings.Replace(valid, "v1alpha1", "v2", 1) + end, "document 4: kind ResourcePatch of action.kwok.x-k8s.io/v2: this program reads kind ResourcePatch of action.kwok.x-k8s.io/v1alpha1"},
		"object after changes":  {begin + valid + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n" + end, "document 5: kind Pod of v1 follows the changes"},
		"after the end":         {begin + valid + end + valid, "a document follows the end of the recording"},
		"changes of a snapshot": {strings.Replace(begin, "recording: true", "", 1) + valid + end, "a document follows the end of the snapshot"},
		"change among objects":  {head + valid + objectsEnd + end, "the document is not an object"},
		"KWOK, cut":             {strings.TrimSuffix(kwokRecording, "ult\n"), "document 3: the file is truncated: it ends within a line of this document; if the line is complete, end it with a newline"},
		"KWOK, cut template":    {kwokRecording[:strings.Index(kwokRecording, "  data:")+4], "document 2: the file is truncated"},
		"KWOK, invalid":         {strings.Replace(kwokRecording, "method: patch", "method: update", 1), "document 2: method \"update\""},
		"KWOK, no change":       {kwokRecording[:strings.Index(kwokRecording, "---")], ""},
		"KWOK, two objects":     {plain + "---\n" + plain, ""},
		"KWOK, cut object":      {plain + "---\n" + plain[:len(plain)-9], "document 2: the file is truncated: it ends within a line of this document; if the line is complete, end it with a newline"},
		"KWOK, cut value":       {plain + "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: sett", "document 2: the file is truncated: it ends within a line of this document"},
		"KWOK, cut after kind":  {plain + "---\napiVersion: v1\nkind: ConfigMap\n", "document 2: the file is truncated: it ends within this document"},
		"no name":               {"apiVersion: v1\nkind: Config\n---\n" + plain, `not a snapshot: its first document must be kind Snapshot of rehearse-k8s.github.io/v1alpha1 or an object with a name, and is kind Config of "v1"`},
		"labels":                {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {b: 1}}\n---\n" + plain, "line 1: metadata.labels must be a map of strings"},
		"no name later":         {plain + "---\napiVersion: v1\nkind: Config\n---\n" + plain, "line 5: the document is not an object: it needs apiVersion, kind and metadata.name"},
	} {
		_, _, err := readRecording([]byte(c.data))
		var bad *FormatError
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (!errors.As(err, &bad) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}
