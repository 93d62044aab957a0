package conversion

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/randfill"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1beta1"
)

const rounds = 500

// generator generates objects whose strings often have a meaning in one version.
type generator struct {
	*rand.Rand
	fill *randfill.Filler
}

func newGenerator(seed int64) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(uint64(seed), 0))}
	number := func(p *intstr.IntOrString, _ randfill.Continue) {
		*p = oneOf(g, intstr.FromInt32(0), intstr.FromInt32(3), intstr.FromString("3"), intstr.FromString("20%"), intstr.FromString("many"))
	}
	g.fill = randfill.NewWithSeed(seed).NilChance(0.5).NumElements(0, 2).MaxDepth(8).Funcs(
		number,
		// Fields that are equal in both versions are moved unchanged, so the test leaves them out.
		func(*corev1.PodTemplateSpec, randfill.Continue) {},
		func(*corev1.PersistentVolumeClaim, randfill.Continue) {},
		func(*metav1.Time, randfill.Continue) {},
		func(p *kruise.InPlaceUpdateStrategy, c randfill.Continue) {
			if g.IntN(3) > 0 {
				c.FillNoCustom(p)
			}
			p.GracePeriodSeconds = oneOf(g, int32(0), 5)
		},
		func(p *metav1.ObjectMeta, _ randfill.Continue) { *p = g.meta() },
		func(p *v1alpha1.CloneSetUpdateStrategyType, _ randfill.Continue) {
			*p = oneOf(g, v1alpha1.ReCreate, v1alpha1.InPlaceIfPossible, v1alpha1.InPlaceOnly, v1alpha1.OnDelete, "", "Sometimes")
		},
		func(p *v1beta1.CloneSetUpdateStrategyType, _ randfill.Continue) {
			*p = oneOf(g, v1beta1.RollingUpdate, v1beta1.OnDelete, "", "Sometimes")
		},
		func(p *v1beta1.CloneSetPodUpdatePolicyType, _ randfill.Continue) {
			*p = oneOf(g, v1beta1.ReCreate, v1beta1.InPlaceIfPossible, v1beta1.InPlaceOnly, "", "Never")
		},
	)
	return g
}

func oneOf[T any](g *generator, values ...T) T { return values[g.IntN(len(values))] }

func (g *generator) meta() metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: "web", Namespace: "shop", Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "b"}}
	if g.IntN(2) == 0 {
		m.Labels[kruise.LabelExcludePreparingDelete] = oneOf(g, "true", "false", "True", "")
	}
	for _, n := range notes {
		if g.IntN(2) == 0 {
			m.Annotations[n.annotation] = oneOf(g, "3", "03", "20%", "-1", "many", "")
		}
	}
	if g.IntN(8) == 0 {
		m.Annotations[Annotation] = oneOf(g, "by hand", "{}", "[1]", "")
	}
	return m
}

func (g *generator) alpha() *v1alpha1.CloneSet {
	c := &v1alpha1.CloneSet{}
	g.fill.Fill(c)
	c.TypeMeta = metav1.TypeMeta{Kind: v1alpha1.Kind, APIVersion: v1alpha1.GroupVersion.String()}
	return c
}

// beta returns the object as v1beta1 is read: without the annotations and labels that are fields there.
func (g *generator) beta() *v1beta1.CloneSet {
	c := &v1beta1.CloneSet{}
	g.fill.Fill(c)
	c.TypeMeta = metav1.TypeMeta{Kind: v1alpha1.Kind, APIVersion: v1beta1.GroupVersion.String()}
	delete(c.Labels, kruise.LabelExcludePreparingDelete)
	for _, n := range notes {
		delete(c.Annotations, n.annotation)
	}
	return c
}

func toBeta(t *testing.T, in *v1alpha1.CloneSet) *v1beta1.CloneSet {
	t.Helper()
	out, err := ToV1beta1(in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func toAlpha(t *testing.T, in *v1beta1.CloneSet) *v1alpha1.CloneSet {
	t.Helper()
	out, err := ToV1alpha1(in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// equal compares the JSON forms, in which an empty list with omitempty is absent.
func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(plain(t, want), plain(t, got)); diff != "" {
		t.Fatalf("%s (-want +got)\n%s", what, diff)
	}
}

func plain(t *testing.T, v any) (o map[string]any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// overwritten reports whether the conversion had to replace a user's value of our own annotation: the only
// loss.
func overwritten(before, after map[string]string) bool {
	_, was := before[Annotation]
	return was && before[Annotation] != after[Annotation]
}

func TestThereAndBack(t *testing.T) {
	g := newGenerator(1)
	for range rounds {
		a := g.alpha()
		b := toBeta(t, a)
		if !overwritten(a.Annotations, b.Annotations) {
			equal(t, "v1alpha1", a, toAlpha(t, b))
		}
	}
	for range rounds {
		b := g.beta()
		a := toAlpha(t, b)
		if !overwritten(b.Annotations, a.Annotations) {
			equal(t, "v1beta1", b, toBeta(t, a))
		}
	}
}

// TestEditsWin: if a user edits an object in the other version, the conversion back returns the edited
// values, as if nothing had been preserved.
func TestEditsWin(t *testing.T) {
	g := newGenerator(2)
	for range rounds {
		a := toAlpha(t, g.beta())
		edit(g, a)
		b := toBeta(t, a)
		back := toAlpha(t, b)
		forgetful := a.DeepCopy()
		delete(forgetful.Annotations, Annotation)
		fresh := toBeta(t, forgetful)
		delete(back.Annotations, Annotation)
		equal(t, "an edit in v1alpha1", forgetful, back)
		equal(t, "what v1beta1 then means", meaning(fresh), meaning(b))
	}
	for range rounds {
		b := toBeta(t, g.alpha())
		other := g.beta()
		if g.IntN(2) == 0 {
			b.Spec.ScaleStrategy = other.Spec.ScaleStrategy
		}
		if g.IntN(2) == 0 {
			b.Spec.UpdateStrategy = other.Spec.UpdateStrategy
		}
		a := toAlpha(t, b)
		back := toBeta(t, a)
		forgetful := b.DeepCopy()
		delete(forgetful.Annotations, Annotation)
		delete(back.Annotations, Annotation)
		equal(t, "an edit in v1beta1", forgetful, back)
	}
}

// edit replaces some fields by those of another object.
func edit(g *generator, a *v1alpha1.CloneSet) {
	other := g.alpha()
	if g.IntN(2) == 0 {
		a.Spec.UpdateStrategy.Type = other.Spec.UpdateStrategy.Type
	}
	if g.IntN(2) == 0 {
		a.Spec.UpdateStrategy.Partition = other.Spec.UpdateStrategy.Partition
	}
	if g.IntN(2) == 0 {
		a.Spec.UpdateStrategy.InPlaceUpdateStrategy = other.Spec.UpdateStrategy.InPlaceUpdateStrategy
	}
	if g.IntN(2) == 0 {
		a.Spec.ScaleStrategy = other.Spec.ScaleStrategy
	}
	for _, n := range notes {
		delete(a.Annotations, n.annotation)
		if note, ok := other.Annotations[n.annotation]; ok {
			a.Annotations[n.annotation] = note
		}
	}
}

// meaning returns v1beta1 without the differences that have no meaning: an absent block equals an empty one,
// and the policy of the block has no effect with OnDelete.
func meaning(b *v1beta1.CloneSet) map[string]any {
	rolling := v1beta1.RollingUpdateCloneSetStrategy{}
	if b.Spec.UpdateStrategy.RollingUpdate != nil {
		rolling = *b.Spec.UpdateStrategy.RollingUpdate
	}
	policy, kind := string(rolling.PodUpdatePolicy), string(b.Spec.UpdateStrategy.Type)
	rolling.PodUpdatePolicy = ""
	w := updateType{Type: &kind, Policy: &policy}
	if kind == "" {
		w.Type = nil
	}
	if policy == "" {
		w.Policy = nil
	}
	return map[string]any{"type": w.alphaType(), "rolling": rolling, "scale": b.Spec.ScaleStrategy}
}

// TestKruiseLosses has one case for each value that OpenKruise's conversion loses.
func TestKruiseLosses(t *testing.T) {
	t.Run("excludePreparingDelete outlives an update through v1alpha1", func(t *testing.T) {
		b := &v1beta1.CloneSet{}
		b.Spec.ScaleStrategy.ExcludePreparingDelete = true
		a := toAlpha(t, b)
		if a.Labels[kruise.LabelExcludePreparingDelete] != "true" {
			t.Errorf("labels %v", a.Labels)
		}
		a.Spec.Replicas = new(int32(3))
		if got := toBeta(t, a); !got.Spec.ScaleStrategy.ExcludePreparingDelete || len(got.Labels) > 0 {
			t.Errorf("%+v, labels %v", got.Spec.ScaleStrategy, got.Labels)
		}
	})
	t.Run("the label has effect when it is set through v1beta1", func(t *testing.T) {
		b := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{kruise.LabelExcludePreparingDelete: "true"}}}
		if got := toBeta(t, toAlpha(t, b)); !got.Spec.ScaleStrategy.ExcludePreparingDelete {
			t.Errorf("%+v", got.Spec.ScaleStrategy)
		}
	})
	t.Run("OnDelete keeps partition and limits", func(t *testing.T) {
		a := &v1alpha1.CloneSet{Spec: v1alpha1.CloneSetSpec{UpdateStrategy: v1alpha1.CloneSetUpdateStrategy{
			Type: v1alpha1.OnDelete, Partition: new(intstr.FromInt32(2)), MaxUnavailable: new(intstr.FromString("10%")), Paused: true,
		}}}
		b := toBeta(t, a)
		if r := b.Spec.UpdateStrategy.RollingUpdate; b.Spec.UpdateStrategy.Type != v1beta1.OnDelete || r.Partition.IntVal != 2 || r.MaxUnavailable.StrVal != "10%" || !r.Paused {
			t.Errorf("%+v", b.Spec.UpdateStrategy)
		}
		equal(t, "v1alpha1", a.Spec, toAlpha(t, b).Spec)
	})
	t.Run("imagePreDownload fields of v1alpha1", func(t *testing.T) {
		a := &v1alpha1.CloneSet{}
		a.Spec.UpdateStrategy.Type = v1alpha1.InPlaceIfPossible
		a.Spec.UpdateStrategy.InPlaceUpdateStrategy = &kruise.InPlaceUpdateStrategy{ImagePreDownloadTimeoutSeconds: new(int32(60))}
		b := toBeta(t, a)
		if got := b.Spec.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy.ImagePreDownloadTimeoutSeconds; got == nil || *got != 60 {
			t.Errorf("got %v", got)
		}
		equal(t, "v1alpha1", a.Spec, toAlpha(t, b).Spec)
	})
	t.Run("enablePVCReuse: false is said", func(t *testing.T) {
		data, err := json.Marshal(v1beta1.CloneSetScaleStrategy{})
		if err != nil || !strings.Contains(string(data), `"enablePVCReuse":false`) {
			t.Errorf("%s, %v", data, err)
		}
		if a := toAlpha(t, &v1beta1.CloneSet{}); !a.Spec.ScaleStrategy.DisablePVCReuse {
			t.Error("claims are used again in v1alpha1")
		}
	})
	t.Run("annotations are fields", func(t *testing.T) {
		a := &v1alpha1.CloneSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kruise.AnnotationPreDownloadMinUpdatedReadyPods: "30%"}}}
		b := toBeta(t, a)
		if got := b.Spec.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy.ImagePreDownloadMinUpdatedReadyPods; got == nil || got.StrVal != "30%" || len(b.Annotations) > 0 {
			t.Errorf("%v, annotations %v", got, b.Annotations)
		}
	})
}

// TestNothingElse: fields that are unknown to this version stay unchanged, and of the metadata only labels
// and annotations change.
func TestNothingElse(t *testing.T) {
	const in = `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"web","uid":"1","managedFields":[{"x":1}],"annotations":{}},
		"spec":{"template":{"spec":{"containers":[{"name":"a","novelty":9007199254740993,"resources":{}}]},"metadata":{"creationTimestamp":null}},
		"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"ReCreate","scatterStrategy":[]}}},"status":{"replicas":3}}`
	o, before := object(t, in), object(t, in)
	if err := JSON(o, v1alpha1.GroupVersion.String()); err != nil {
		t.Fatal(err)
	}
	for _, version := range []map[string]any{o, before} {
		spec, meta := version["spec"].(map[string]any), version["metadata"].(map[string]any)
		for _, key := range []string{"scaleStrategy", "updateStrategy"} {
			delete(spec, key)
		}
		delete(meta, "annotations")
		delete(version, "apiVersion")
	}
	if diff := cmp.Diff(before, o); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
}

func object(t *testing.T, data string) (o map[string]any) {
	t.Helper()
	if err := utiljson.Unmarshal([]byte(data), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestBadForm(t *testing.T) {
	const head = `{"kind":"CloneSet","apiVersion":"apps.kruise.io/v1beta1",`
	for in, want := range map[string]string{
		`{}`: "kind <nil>: want CloneSet",
		`{"kind":"CloneSet","apiVersion":"apps/v1"}`:                                               `apiVersion "apps/v1"`,
		head + `"spec":[]}`:                                                                        "spec: want an object",
		head + `"spec":{"scaleStrategy":"x"}}`:                                                     "spec.scaleStrategy: want an object",
		head + `"spec":{"scaleStrategy":{"enablePVCReuse":"x"}}}`:                                  "spec.scaleStrategy.enablePVCReuse: want true or false",
		head + `"spec":{"updateStrategy":{"type":1}}}`:                                             "spec.updateStrategy.type: want a string",
		head + `"spec":{"updateStrategy":{"rollingUpdate":1}}}`:                                    "spec.updateStrategy.rollingUpdate: want an object",
		head + `"spec":{},"metadata":{"labels":[]}}`:                                               "metadata.labels: want an object",
		head + `"spec":{},"metadata":{"labels":{"` + kruise.LabelExcludePreparingDelete + `":1}}}`: "want a string",
	} {
		err := JSON(object(t, in), v1alpha1.GroupVersion.String())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", in, err, want)
		}
	}
}

// FuzzJSON: no object causes a panic, and an object that was converted can be converted again.
func FuzzJSON(f *testing.F) {
	g := newGenerator(3)
	for range 10 {
		for _, seed := range []any{g.alpha(), g.beta()} {
			data, _ := json.Marshal(seed)
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var o map[string]any
		if utiljson.Unmarshal(data, &o) != nil || o == nil {
			return
		}
		versions := []string{v1beta1.GroupVersion.String(), v1alpha1.GroupVersion.String()}
		if JSON(o, versions[0]) != nil {
			return
		}
		for range 2 {
			for _, version := range []string{versions[1], versions[0]} {
				if err := JSON(o, version); err != nil {
					t.Fatal(err)
				}
			}
		}
		first, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		for _, version := range []string{versions[1], versions[0]} {
			if err := JSON(o, version); err != nil {
				t.Fatal(err)
			}
		}
		if again, _ := json.Marshal(o); string(first) != string(again) {
			t.Errorf("a second conversion differs:\n%s\n%s", first, again)
		}
	})
}
