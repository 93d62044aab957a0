package stages

import (
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/stage"
)

// checkTable performs random operations on a table and checks its consistency after each.
func checkTable(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := newHarness(t, testStages)
		version := 10
		var busy []job
		label := rapid.SampledFrom([]string{"go", "other", "none"})
		names := rapid.SampledFrom([]string{"a", "b", "c"})
		live := map[string]types.UID{}
		see := func(name string, uid types.UID, v int) {
			p := testPod(v, label.Draw(r, "label"))
			p.Name, p.UID = name, uid
			b.observe(p)
		}
		r.Repeat(map[string]func(*rapid.T){
			"update": func(r *rapid.T) {
				name := names.Draw(r, "name")
				version++
				if live[name] == "" {
					live[name] = types.UID(name + strconv.Itoa(version))
				}
				see(name, live[name], version)
			},
			"replace": func(r *rapid.T) { // a delete and a create that a relist shows as one change
				name := names.Draw(r, "name")
				version++
				live[name] = types.UID(name + strconv.Itoa(version))
				see(name, live[name], version)
			},
			"stale update": func(r *rapid.T) {
				name := names.Draw(r, "name")
				if live[name] != "" {
					see(name, live[name], rapid.IntRange(1, 9).Draw(r, "version"))
				}
			},
			"delete": func(r *rapid.T) {
				name := names.Draw(r, "name")
				b.table.forget(b.now, live[name])
				delete(live, name)
			},
			"node": func(r *rapid.T) {
				version++
				n := testNode(version)
				if rapid.Bool().Draw(r, "real") {
					n.Labels = map[string]string{"real": "yes"}
				}
				b.observe(n)
			},
			"time": func(r *rapid.T) { b.advance(time.Duration(rapid.IntRange(1, 15000).Draw(r, "ms")) * time.Millisecond) },
			"take": func(r *rapid.T) {
				if j, ok := b.take(); ok {
					busy = append(busy, j)
				}
			},
			"done": func(r *rapid.T) {
				if len(busy) == 0 {
					r.Skip("no job is running")
				}
				i := rapid.IntRange(0, len(busy)-1).Draw(r, "which")
				j := busy[i]
				busy = append(busy[:i], busy[i+1:]...)
				o := outcome{kind: rapid.SampledFrom([]outcomeKind{played, deleted, outdated, failed}).Draw(r, "kind")}
				if j.confirm {
					o.kind = rapid.SampledFrom([]outcomeKind{found, failed}).Draw(r, "kind of read")
				}
				if o.kind == played && rapid.Bool().Draw(r, "wrote") {
					version++
					p := testPod(version, label.Draw(r, "label"))
					p.Name, p.UID = j.key.name, j.uid
					o.object, o.wrote = p, true
				}
				b.table.done(b.now, j, o)
			},
			"": func(r *rapid.T) { checkShape(r, b, live) },
		})
	})
}

func checkShape(r *rapid.T, b *harness, live map[string]types.UID) {
	t := b.table
	if len(t.pending) != 0 {
		r.Fatalf("%d entries are still pending", len(t.pending))
	}
	if len(t.entries) != len(live)+1 || len(t.names) != len(live)+1 {
		r.Fatalf("%d entries and %d names for %d pods and a node", len(t.entries), len(t.names), len(live))
	}
	for name, uid := range live {
		if t.names[objectKey{kind: stage.KindPod, namespace: "default", name: name}] != uid {
			r.Fatalf("%s is not in the index of names", uid)
		}
	}
	for uid := range t.due.items.of {
		if t.entries[uid] == nil {
			r.Fatalf("%s is planned but unknown", uid)
		}
	}
	for uid, e := range t.entries {
		_, planned := t.due.items.of[uid]
		if e.busy && planned {
			r.Fatalf("%s is busy and planned", uid)
		}
		q := t.inputOf(e)
		d := q.decide(b.now)
		if !e.busy && q.ours && (d.Chosen() || !e.confirm.IsZero()) && !planned {
			r.Fatalf("%s has a decision (%s) and is not planned", uid, d.String())
		}
	}
}
