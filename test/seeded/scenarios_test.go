package seeded_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/scenario"
	"github.com/rehearse-k8s/rehearse/test/seeded"
)

// processCase is the test of a bug as a scenario, for real processes. Its steps and invariants are those of the bug's test in
// simtest, as items of YAML lists. Invariants that need earlier states use the oracle Stays or the record.
type processCase struct {
	steps, always, eventually []string
	// within is the time that the controller has after the last step and the last fault: more than twice its longest wait. Empty: 25 s.
	within string
	// except are faults that violate an invariant here without the bug, in addition to the kinds that the bug excludes.
	except []string
}

// The user's steps.
var (
	createDB = createStep(`apiVersion: apps/v1, kind: Deployment, metadata: {name: db}, ` + dbSpec(2))
	deleteDB = `delete: {resource: deployments.apps, name: db}`
	// settle waits until nothing has been written for 0.3 s. The settle of simtest waits for ten seconds, which cost nothing there, so a timer of
	// the controller may expire meanwhile.
	settle = `settle: {}`
	// settleWithin is the same, for at most d.
	settleWithin = func(d string) string { return `settle: {within: ` + d + `}` }
)

func dbSpec(replicas int) string {
	return fmt.Sprintf(`spec: {replicas: %d, selector: {matchLabels: {app: db}}, `+
		`template: {metadata: {labels: {app: db}}, spec: {containers: [{name: main, image: "db:1"}]}}}`, replicas)
}

func createStep(object string) string { return `create: {object: {` + object + `}}` }

func patchDB(patch string) string {
	return `patch: {resource: deployments.apps, name: db, type: strategic, patch: {` + patch + `}}`
}

func setDBImage(image string) string {
	return patchDB(`spec: {template: {spec: {containers: [{name: main, image: "` + image + `"}]}}}`)
}

// celInvariant returns an invariant that a CEL expression describes.
func celInvariant(name, cel string) string { return fmt.Sprintf("name: %q\n  cel: '%s'", name, cel) }

// staysInvariant returns an invariant that must hold at each time after it held once.
func staysInvariant(name, cel string) string {
	return fmt.Sprintf("name: %q\n  oracle: Stays\n  with: {cel: '%s'}", name, cel)
}

// Parts of expressions.
const (
	deploymentDB = `get("deployments.apps", "default", "db")`
	livingDB     = `list("configmaps", "default").filter(m, m.metadata.?labels[?"member-of"].orValue("") == "db" && !has(m.metadata.deletionTimestamp))`
)

func memberHas(name, image string) string {
	m := `get("configmaps", "default", "` + name + `")`
	return m + ` != null && ` + m + `.?data.image.orValue("") == "` + image + `"`
}

func ofSecondDB(name string) string {
	m := `get("configmaps", "default", "` + name + `")`
	return deploymentDB + ` != null && ` + deploymentDB + `.metadata.?annotations[?"incarnation"].orValue("") == "second" && ` +
		m + ` != null && ` + m + `.metadata.?labels[?"owner-uid"].orValue("") == ` + deploymentDB + `.metadata.uid`
}

// The invariants.
var (
	atMostTwo   = celInvariant("at most 2 members", livingDB+`.size() <= 2`)
	atLeastTwo  = celInvariant("at least 2 members", livingDB+`.size() >= 2`)
	outsideGone = celInvariant("configmaps db-outside does not exist", `get("configmaps", "default", "db-outside") == null`)
	bothHave    = func(image string) string {
		return celInvariant("2 members have the image "+image, livingDB+`.filter(m, m.?data.image.orValue("") == "`+image+`").size() == 2`)
	}
	createdNames = `steps.filter(s, s.wrote && s.actor == "seeded" && s.verb == "create" && s.resource == "configmaps")`
)

// createTwo is the test of a controller that has two members at the end.
func createTwo(always ...string) processCase {
	return processCase{steps: []string{createDB}, always: always, eventually: []string{atLeastTwo}}
}

// processCases are the tests of the bugs for real processes.
var processCases = map[string]processCase{
	"lost-create":          createTwo(atMostTwo),
	"cleared-expectations": createTwo(atMostTwo),
	"generated-repair":     createTwo(atMostTwo),
	"stale-start":          createTwo(atMostTwo),
	"missed-expectation":   createTwo(),
	"memory-ordinal": {steps: []string{createDB}, eventually: []string{atLeastTwo, celInvariant("no name of a member is used twice",
		createdNames+`.all(a, `+createdNames+`.filter(b, b.name == a.name).size() == 1)`)}},
	"unrecorded-create": createTwo(atMostTwo),
	"alternative-name":  createTwo(atMostTwo),
	"early-finalizer":   {steps: []string{createDB, settle, deleteDB}, eventually: []string{outsideGone}},
	"late-finalizer":    {steps: []string{createDB, settleWithin("5s"), deleteDB}, eventually: []string{outsideGone}},
	"delete-by-name": {
		steps: []string{createDB, settle, deleteDB, createStep(`apiVersion: apps/v1, kind: Deployment, metadata: {name: db, annotations: {incarnation: second}}, ` + dbSpec(2))},
		always: []string{
			staysInvariant("no member of the present Deployment is removed: db-0", ofSecondDB("db-0")),
			staysInvariant("no member of the present Deployment is removed: db-1", ofSecondDB("db-1")),
		},
		eventually: []string{atLeastTwo},
	},
	"cached-cleanup": {steps: []string{createDB, settleWithin("5s"), deleteDB}, eventually: []string{celInvariant("at most 0 members", livingDB+`.size() == 0`)}},
	"unobserved-owner": {
		steps: []string{createDB, settle, deleteDB, settleWithin("1s"), createDB},
		eventually: []string{celInvariant("the data belongs to the present Deployment",
			`get("configmaps", "default", "db-data").metadata.labels["owner-uid"] == `+deploymentDB+`.metadata.uid`)},
	},
	"observed-generation": {
		steps:      []string{createDB, settle, setDBImage("db:2"), settle, setDBImage("db:3")},
		eventually: []string{bothHave("db:3")},
	},
	"double-count": {
		steps: []string{
			createDB,
			createStep(`apiVersion: v1, kind: ConfigMap, metadata: {name: done-0, labels: {member-of: db}, finalizers: [` + seeded.Finalizer + `]}`),
			createStep(`apiVersion: v1, kind: ConfigMap, metadata: {name: done-1, labels: {member-of: db}, finalizers: [` + seeded.Finalizer + `]}`),
		},
		always: []string{celInvariant("each finished member is counted once: at most",
			deploymentDB+` == null || ["", "0", "1", "2"].exists(n, n == `+deploymentDB+`.metadata.?annotations[?"counted"].orValue(""))`)},
		eventually: []string{celInvariant("each finished member is counted once", deploymentDB+`.metadata.?annotations[?"counted"].orValue("") == "2"`)},
	},
	"next-victim": {
		steps:      []string{createStep(`apiVersion: apps/v1, kind: Deployment, metadata: {name: db}, ` + dbSpec(3)), settle, patchDB(`spec: {replicas: 2}`)},
		always:     []string{staysInvariant("once true, stays true: at least 2 members", livingDB+`.size() >= 2`)},
		eventually: []string{celInvariant("at most 2 members", livingDB+`.size() <= 2`)},
		except:     []string{"edit target=deployments.apps/default/db"},
	},
	"switch-over": {
		steps: []string{createDB, settle, setDBImage("db:2")},
		always: []string{celInvariant("the old object is removed only if the new one exists",
			`steps.size() == 0 || !steps[steps.size()-1].wrote || steps[steps.size()-1].actor != "seeded" || steps[steps.size()-1].verb != "delete" || `+
				`steps[steps.size()-1].resource != "configmaps" || `+deploymentDB+`.spec.template.spec.containers[0].image != "db:2" || `+
				`get("secrets", "default", "db-serving") != null`)},
		eventually: []string{celInvariant("configmaps db-serving does not exist", `get("configmaps", "default", "db-serving") == null`)},
	},
	"stale-leader": {
		steps: []string{
			createDB, // then a replica is elected
			"wait: {name: 2 members, within: 60s, cel: '" + livingDB + ".size() == 2'}", setDBImage("db:2"),
		},
		within: "65s", // the next election may take 17 s
		always: []string{
			staysInvariant("no member gets an older image again: db-0", memberHas("db-0", "db:2")),
			staysInvariant("no member gets an older image again: db-1", memberHas("db-1", "db:2")),
		},
		eventually: []string{bothHave("db:2")},
		except:     []string{"delete"},
	},
	"late-delete": {
		steps: []string{createDB, settle, setDBImage("db:2")},
		always: []string{
			staysInvariant("no member with the new image is removed: db-0", memberHas("db-0", "db:2")),
			staysInvariant("no member with the new image is removed: db-1", memberHas("db-1", "db:2")),
		},
		eventually: []string{bothHave("db:2")},
	},
	"migration": createTwo(),
	"rotated-secret": {
		steps: []string{createDB, settle, patchDB(`metadata: {annotations: {rotate: one}}`)},
		eventually: []string{celInvariant("Secret and configuration have the new token", // base64 of "one"
			`get("secrets", "default", "db-token").data.token == "b25l" && get("configmaps", "default", "db-token").data.token == "one"`)},
	},
	"given-up":     createTwo(),
	"lost-timer":   {steps: []string{createDB}, eventually: []string{atLeastTwo}, within: "65s"}, // it waits for 30 s
	"repair-error": createTwo(),
	"recreated-secret": {
		within:     "10s",
		steps:      []string{createPassword, createDB, settle, `delete: {resource: secrets, name: db-password}`, createPassword},
		eventually: []string{celInvariant("the Secret is marked", `get("secrets", "default", "db-password").metadata.?annotations[?"marked"].orValue("") != ""`)},
	},
	"replaced-twice": createTwo(atMostTwo),
	"wide":           {steps: []string{createDB}, eventually: []string{celInvariant("2 pods", `list("pods", "default").size() == 2`)}},
}

var createPassword = createStep(`apiVersion: v1, kind: Secret, metadata: {name: db-password, labels: {member-of: db}}, data: {password: c2VjcmV0}`)

// scenarioOf returns the scenario of a bug, for its controller (asBug) or for the correct sibling (asSibling).
func scenarioOf(name, as string) string {
	c, b := processCases[name], bugs[name]
	var out strings.Builder
	clients := []string{"seeded"}
	if b.leaders {
		clients = []string{"seeded-0", "seeded-1"}
	}
	fmt.Fprintf(&out, "apiVersion: rehearse-k8s.github.io/v1alpha1\nkind: Scenario\nmetadata: {name: %s}\nspec:\n cluster: {nodes: 0, controllers: []}\n clients:\n", name)
	for _, client := range clients {
		fmt.Fprintf(&out, " - {name: %s, command: [%q, %s, %s]}\n", client, os.Args[0], as, name)
	}
	list := func(title string, items []string) {
		if len(items) > 0 {
			fmt.Fprintf(&out, "%s:\n", title)
		}
		for _, item := range items {
			fmt.Fprintf(&out, "  - %s\n", strings.ReplaceAll(item, "\n", "\n  "))
		}
	}
	list(" steps", c.steps)
	fmt.Fprint(&out, " invariants:\n  endsVary: true\n")
	list("  always", c.always)
	var eventually []string
	for _, e := range c.eventually {
		eventually = append(eventually, e+"\n  within: "+cmp.Or(c.within, "25s"))
	}
	list("  eventually", eventually)
	fmt.Fprint(&out, " faults:\n")
	list("  except", slices.Concat([]string{"recreate"}, fault.Strings(b.excluded()), c.except))
	return out.String()
}

// TestScenarios: each bug has a scenario, and each scenario is valid.
func TestScenarios(t *testing.T) {
	if a, b := slices.Sorted(maps.Keys(processCases)), slices.Sorted(maps.Keys(bugs)); !slices.Equal(a, b) {
		t.Fatalf("scenarios: %q; bugs: %q", a, b)
	}
	for name, c := range processCases {
		if !slices.ContainsFunc(slices.Concat(c.always, c.eventually), func(item string) bool {
			return strings.HasPrefix(item, fmt.Sprintf("name: %q", bugs[name].violates)) || strings.HasPrefix(item, `name: "`+bugs[name].violates+": ")
		}) {
			t.Errorf("%s: no invariant has the name %q of the one that the bug violates", name, bugs[name].violates)
		}
		if _, err := scenario.Read(name+".yaml", []byte(scenarioOf(name, asBug)), os.ReadFile); err != nil {
			t.Errorf("%s: %v\n%s", name, err, scenarioOf(name, asBug))
		}
	}
}
