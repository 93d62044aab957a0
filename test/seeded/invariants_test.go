package seeded_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/test/seeded"
)

// living returns the members of the Deployment that are not being deleted; with an image, only those that have it.
func living(v invariant.View, image string) (members []*unstructured.Unstructured) {
	for _, o := range v.List("configmaps") {
		have, _, _ := unstructured.NestedString(o.Object, "data", "image")
		if o.GetLabels()[seeded.MemberOf] == "db" && o.GetDeletionTimestamp() == nil && (image == "" || image == have) {
			members = append(members, o)
		}
	}
	return members
}

// atMost limits the number of members.
func atMost(n int) invariant.Invariant {
	return invariant.Func(fmt.Sprintf("at most %d members", n), func(v invariant.View) error {
		if have := len(living(v, "")); have > n {
			return fmt.Errorf("%d", have)
		}
		return nil
	})
}

// atLeast requires a number of members.
func atLeast(n int) invariant.Invariant {
	return invariant.Func(fmt.Sprintf("at least %d members", n), func(v invariant.View) error {
		if have := len(living(v, "")); have < n {
			return fmt.Errorf("%d", have)
		}
		return nil
	})
}

// haveImage requires a number of members with an image.
func haveImage(n int, image string) invariant.Invariant {
	return invariant.Func(fmt.Sprintf("%d members have the image %s", n, image), func(v invariant.View) error {
		if have := len(living(v, image)); have != n {
			return fmt.Errorf("%d", have)
		}
		return nil
	})
}

// pods requires a number of pods.
func pods(n int) invariant.Invariant {
	return invariant.Func(fmt.Sprintf("%d pods", n), func(v invariant.View) error {
		if have := len(v.List("pods")); have != n {
			return fmt.Errorf("%d", have)
		}
		return nil
	})
}

// noReuse is violated when a name of a member belongs to a second object. Each run needs its own.
func noReuse() invariant.Invariant {
	users := map[string]string{} // name -> UID
	return invariant.Func("no name of a member is used twice", func(v invariant.View) error {
		for _, m := range living(v, "") {
			if was := users[m.GetName()]; was != "" && was != string(m.GetUID()) {
				return fmt.Errorf("%s", m.GetName())
			}
			users[m.GetName()] = string(m.GetUID())
		}
		return nil
	})
}

// kept is violated when a member disappears that was current. Each run needs its own.
func kept(name string, current func(v invariant.View, m *unstructured.Unstructured) bool) invariant.Invariant {
	was := map[string]string{} // UID -> name
	return invariant.Func(name, func(v invariant.View) error {
		now := map[string]string{}
		exists := map[string]bool{}
		for _, m := range v.List("configmaps") {
			if exists[string(m.GetUID())] = true; m.GetLabels()[seeded.MemberOf] == "db" && current(v, m) {
				now[string(m.GetUID())] = m.GetName()
			}
		}
		for uid, name := range was {
			if !exists[uid] {
				return fmt.Errorf("%s", name)
			}
		}
		was = now
		return nil
	})
}

// notReverted is violated when a member has an older image than before. Each run needs its own.
func notReverted() invariant.Invariant {
	was := map[string]string{} // UID -> image
	return invariant.Func("no member gets an older image again", func(v invariant.View) error {
		for _, m := range living(v, "") {
			uid := string(m.GetUID())
			image, _, _ := unstructured.NestedString(m.Object, "data", "image")
			if image < was[uid] {
				return fmt.Errorf("%s: %s after %s", m.GetName(), image, was[uid])
			}
			was[uid] = image
		}
		return nil
	})
}

// ofPresent reports whether a member belongs to the present incarnation of its Deployment.
func ofPresent(v invariant.View, m *unstructured.Unstructured) bool {
	d := v.Get("deployments.apps", "default", "db")
	return d != nil && m.GetLabels()[seeded.OwnerUID] == string(d.GetUID())
}

// hasImage returns a function that reports whether a member has an image.
func hasImage(image string) func(invariant.View, *unstructured.Unstructured) bool {
	return func(_ invariant.View, m *unstructured.Unstructured) bool {
		have, _, _ := unstructured.NestedString(m.Object, "data", "image")
		return have == image
	}
}

// served is violated when the controller removes the object that serves the old image while none serves the new one. Each
// run needs its own.
func served() invariant.Invariant {
	had := false
	return invariant.Func("the old object is removed only if the new one exists", func(v invariant.View) error {
		oldOne := v.Get("configmaps", "default", "db-serving") != nil
		was := had
		had = oldOne
		d := v.Get("deployments.apps", "default", "db")
		steps := v.Run().Steps
		if was && !oldOne && steps[len(steps)-1].Actor == "seeded" && imageOf(d) == "db:2" && v.Get("secrets", "default", "db-serving") == nil {
			return fmt.Errorf("nothing serves")
		}
		return nil
	})
}

func imageOf(d *unstructured.Unstructured) string {
	if d == nil {
		return ""
	}
	containers, _, _ := unstructured.NestedSlice(d.Object, "spec", "template", "spec", "containers")
	image, _ := containers[0].(map[string]any)["image"].(string)
	return image
}

// absent requires that an object does not exist.
func absent(resource, name string) invariant.Invariant {
	return invariant.Func(fmt.Sprintf("%s %s does not exist", resource, name), func(v invariant.View) error {
		if v.Get(resource, "default", name) != nil {
			return fmt.Errorf("it exists")
		}
		return nil
	})
}

// presentData requires that the data of the Deployment belongs to its present incarnation.
var presentData = invariant.Func("the data belongs to the present Deployment", func(v invariant.View) error {
	if m := v.Get("configmaps", "default", "db-data"); m == nil || !ofPresent(v, m) {
		return fmt.Errorf("it does not")
	}
	return nil
})

// counted limits the count of finished members, and requires it with exactly.
func counted(exactly bool) invariant.Invariant {
	return invariant.Func("each finished member is counted once", func(v invariant.View) error {
		d := v.Get("deployments.apps", "default", "db")
		have := ""
		if d != nil {
			have = d.GetAnnotations()["counted"]
		}
		if have > "2" || exactly && have != "2" {
			return fmt.Errorf("%s", have)
		}
		return nil
	})
}

// sameToken requires that the Secret and the configuration have the token.
var sameToken = invariant.Func("Secret and configuration have the new token", func(v invariant.View) error {
	secret, config := v.Get("secrets", "default", "db-token"), v.Get("configmaps", "default", "db-token")
	if secret == nil || config == nil {
		return fmt.Errorf("they do not exist")
	}
	encoded, _, _ := unstructured.NestedString(secret.Object, "data", "token")
	plain, _, _ := unstructured.NestedString(config.Object, "data", "token")
	if encoded != "b25l" || plain != "one" { // base64 of "one"
		return fmt.Errorf("the Secret has %q, the configuration %q", encoded, plain)
	}
	return nil
})

// marked requires that the Secret is marked.
var marked = invariant.Func("the Secret is marked", func(v invariant.View) error {
	if s := v.Get("secrets", "default", "db-password"); s == nil || s.GetAnnotations()["marked"] == "" {
		return fmt.Errorf("it is not")
	}
	return nil
})
