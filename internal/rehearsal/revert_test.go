package rehearsal

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	if text == "" {
		return nil
	}
	var o map[string]any
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestRevert: what the run wrote last is reverted and what others wrote stays, field by field and item by
// item.
func TestRevert(t *testing.T) {
	for name, c := range map[string]struct {
		writes    [][2]string
		now, want string
	}{
		"a field":                   {[][2]string{{`{"data":{"a":"1"}}`, `{"data":{"a":"2"}}`}}, `{"data":{"a":"2"}}`, `{"data":{"a":"1"}}`},
		"and another of others":     {[][2]string{{`{"data":{"a":"1"}}`, `{"data":{"a":"2"}}`}}, `{"data":{"a":"2","b":"theirs"}}`, `{"data":{"a":"1","b":"theirs"}}`},
		"written by others since":   {[][2]string{{`{"data":{"a":"1"}}`, `{"data":{"a":"2"}}`}}, `{"data":{"a":"3"}}`, `{"data":{"a":"3"}}`},
		"others in between":         {[][2]string{{`{"data":{"a":"1"}}`, `{"data":{"a":"2"}}`}, {`{"data":{"a":"3"}}`, `{"data":{"a":"4"}}`}}, `{"data":{"a":"4"}}`, `{"data":{"a":"3"}}`},
		"twice":                     {[][2]string{{`{"data":{"a":"1"}}`, `{"data":{"a":"2"}}`}, {`{"data":{"a":"2"}}`, `{"data":{"a":"3"}}`}}, `{"data":{"a":"3"}}`, `{"data":{"a":"1"}}`},
		"there and back":            {[][2]string{{`{"data":{"a":"1"}}`, `{"data":{"a":"2"}}`}, {`{"data":{"a":"2"}}`, `{"data":{"a":"1"}}`}}, `{"data":{"a":"1"}}`, `{"data":{"a":"1"}}`},
		"a map of the run's":        {[][2]string{{`{}`, `{"data":{"a":"1"}}`}}, `{"data":{"a":"1"}}`, `{}`},
		"with a field of others":    {[][2]string{{`{}`, `{"data":{"a":"1"}}`}}, `{"data":{"a":"1","b":"theirs"}}`, `{"data":{"b":"theirs"}}`},
		"a map that was removed":    {[][2]string{{`{"data":{"a":"1"}}`, `{}`}}, `{}`, `{"data":{"a":"1"}}`},
		"finalizers":                {[][2]string{{`{"metadata":{"finalizers":["x"]}}`, `{"metadata":{"finalizers":["x","run"]}}`}}, `{"metadata":{"finalizers":["x","run","theirs"]}}`, `{"metadata":{"finalizers":["x","theirs"]}}`},
		"a finalizer that is gone":  {[][2]string{{`{"metadata":{"finalizers":["x","y"]}}`, `{"metadata":{"finalizers":["y"]}}`}}, `{"metadata":{"finalizers":["y"]}}`, `{"metadata":{"finalizers":["x","y"]}}`},
		"owner references":          {[][2]string{{`{"metadata":{}}`, `{"metadata":{"ownerReferences":[{"uid":"1","name":"run"}]}}`}}, `{"metadata":{"ownerReferences":[{"uid":"1","name":"run"},{"uid":"2","name":"theirs"}]}}`, `{"metadata":{"ownerReferences":[{"uid":"2","name":"theirs"}]}}`},
		"a container":               {[][2]string{{`{"c":[{"name":"a","image":"1"}]}`, `{"c":[{"name":"a","image":"2"},{"name":"run"}]}`}}, `{"c":[{"name":"a","image":"2","tty":true},{"name":"run"},{"name":"theirs"}]}`, `{"c":[{"name":"a","image":"1","tty":true},{"name":"theirs"}]}`},
		"an item that others wrote": {[][2]string{{`{"c":[]}`, `{"c":[{"name":"run"}]}`}}, `{"c":[{"name":"run","image":"theirs"}]}`, `{"c":[{"name":"run","image":"theirs"}]}`},
		"a list without names":      {[][2]string{{`{"c":[{"x":1},{"x":1}]}`, `{"c":[{"x":2}]}`}}, `{"c":[{"x":2}]}`, `{"c":[{"x":1},{"x":1}]}`},
		"and written by others":     {[][2]string{{`{"c":[{"x":1},{"x":1}]}`, `{"c":[{"x":2}]}`}}, `{"c":[{"x":3}]}`, `{"c":[{"x":3}]}`},
		"an order":                  {[][2]string{{`{"c":["b","a"]}`, `{"c":["a"]}`}}, `{"c":["a"]}`, `{"c":["b","a"]}`},
		"a status, a revision":      {[][2]string{{`{"metadata":{"resourceVersion":"1"},"status":{"a":1}}`, `{"metadata":{"resourceVersion":"2"},"status":{"a":2}}`}}, `{"metadata":{"resourceVersion":"2"},"status":{"a":2}}`, `{"metadata":{"resourceVersion":"2"},"status":{"a":2}}`},
		"a creation":                {[][2]string{{``, `{"data":{"a":"1"}}`}}, `{"data":{"a":"1"}}`, `{"data":{"a":"1"}}`},
	} {
		var writes []write
		for _, w := range c.writes {
			writes = append(writes, write{was: decoded(t, w[0]), is: decoded(t, w[1])})
		}
		now := decoded(t, c.now)
		got := revert(writes, now)
		if want := decoded(t, c.want); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		if !reflect.DeepEqual(now, decoded(t, c.now)) {
			t.Errorf("%s: what there is was changed", name)
		}
		if again := revert(writes, got); !reflect.DeepEqual(again, got) {
			t.Errorf("%s: reverted twice: %v, want %v", name, again, got)
		}
	}
}

// TestRevertRandom: after any order of writes of the run and of others, each field has the value that others
// wrote last, or the one from before the run's first write since then.
func TestRevertRandom(t *testing.T) {
	for seed := range uint64(3000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		fields := []string{"a", "b", "c"}
		now := map[string]any{"spec": map[string]any{"a": "a", "b": "b"}, "metadata": map[string]any{"finalizers": []any{"a", "b"}}}
		want := decode(encode(t, now)) // the same object with only the writes of others
		var writes []write
		for n := range 1 + rnd.IntN(8) {
			run, name := rnd.IntN(2) == 0, fields[rnd.IntN(3)]
			was, value := decode(encode(t, now)), fmt.Sprintf("%s-%d", name, n)
			objects := []map[string]any{now}
			if !run {
				objects = append(objects, want)
			}
			for _, o := range objects {
				spec, _ := o["spec"].(map[string]any)
				meta, _ := o["metadata"].(map[string]any)
				finalizers, _ := meta["finalizers"].([]any)
				switch {
				case n%2 == 0:
					spec[name] = value
				case run && slices.Contains(finalizers, any(name)):
					meta["finalizers"] = slices.DeleteFunc(finalizers, func(f any) bool { return f == name })
				case run && !slices.Contains(finalizers, any("run")):
					meta["finalizers"] = append(finalizers, any("run"))
				case run:
					delete(spec, name)
				default:
					meta["finalizers"] = append(finalizers, any("theirs-"+value))
				}
			}
			if run {
				writes = append(writes, write{was, decode(encode(t, now))})
			}
		}
		got := revert(writes, now)
		if !reflect.DeepEqual(got["spec"], want["spec"]) || !slices.Equal(sortedFinalizers(got), sortedFinalizers(want)) {
			t.Fatalf("seed %d: %v\nwant %v\nafter %v\nwrites %v", seed, got, want, now, writes)
		}
	}
}

func sortedFinalizers(o map[string]any) (names []string) {
	meta, _ := o["metadata"].(map[string]any)
	list, _ := meta["finalizers"].([]any)
	for _, f := range list {
		names = append(names, fmt.Sprint(f))
	}
	slices.Sort(names)
	return names
}

func encode(t *testing.T, o map[string]any) []byte {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decode(data []byte) (o map[string]any) {
	_ = json.Unmarshal(data, &o)
	return o
}
