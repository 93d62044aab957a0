package scenario_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/scenario"
)

// TestIdentity: who a client is to the API, as a user name with groups and as a sentence.
func TestIdentity(t *testing.T) {
	for as, want := range map[string]struct {
		user, rights string
		groups       []string
	}{
		"":         {"rehearse:client", "all (group system:masters)", []string{"system:masters"}},
		"as: null": {"rehearse:client", "all (group system:masters)", []string{"system:masters"}},
		"as: {serviceAccount: kube-system/job-controller}": {"system:serviceaccount:kube-system:job-controller", "those of ServiceAccount kube-system/job-controller", nil},
		"as: {user: jane}":                      {"jane", "those of user jane", nil},
		"as: {user: jane, groups: [a, b]}":      {"jane", "those of user jane in groups a, b", []string{"a", "b"}},
		"as: {user: \"system:kube-scheduler\"}": {"system:kube-scheduler", "those of user system:kube-scheduler", nil},
	} {
		s := mustParse(t, "  clients: [{name: a, "+as+"}]\n")
		user, groups := scenario.User(&s.Clients[0])
		equal(t, as+" user", want.user, user)
		equal(t, as+" groups", want.groups, groups)
		equal(t, as+" rights", want.rights, scenario.Rights(&s.Clients[0]))
	}
}

// TestIdentityErrors: a client is a ServiceAccount or a user, and each is written in its own way.
func TestIdentityErrors(t *testing.T) {
	const either = ": must have either serviceAccount or user; leave it out for a client that may do everything"
	for as, want := range map[string][]string{
		"{}":                                    {either},
		"{groups: [a]}":                         {either},
		"{user: a, serviceAccount: b/c}":        {either},
		"{serviceAccount: b}":                   {".serviceAccount: b: must be namespace/name of a ServiceAccount, such as default/operator"},
		"{serviceAccount: b/}":                  {".serviceAccount: b/: must be namespace/name of a ServiceAccount, such as default/operator"},
		"{serviceAccount: B/c}":                 {".serviceAccount: B/c: must be namespace/name of a ServiceAccount, such as default/operator"},
		"{serviceAccount: b/c/d}":               {".serviceAccount: b/c/d: must be namespace/name of a ServiceAccount, such as default/operator"},
		"{serviceAccount: b/c, groups: [d]}":    {".groups: d: are for user; a ServiceAccount has the groups of its namespace"},
		"{user: \"system:serviceaccount:b:c\"}": {".user: system:serviceaccount:b:c: is a ServiceAccount; write it as serviceAccount: namespace/name"},
		"{user: a, groups: [b, \"\"]}":          {".groups[1]: must name a group"},
		"{user: 7}":                             {`.user: 7: must be a text and is a number; write "7"`},
	} {
		_, err := parse("  clients: [{name: a, as: "+as+"}]\n", nil)
		for i := range want {
			want[i] = "spec.clients[0].as" + want[i]
		}
		equal(t, as, want, problems(t, err))
	}
}

// TestClientNames: a name is a label of DNS that no other actor of a record has.
func TestClientNames(t *testing.T) {
	for name, want := range map[string]string{
		"a-1":                   "",
		"job":                   "",
		"user":                  "user: names another actor of a recorded run; choose another name",
		"cluster":               "cluster: names another actor of a recorded run; choose another name",
		"controllers":           "controllers: names another actor of a recorded run; choose another name",
		"other-user":            "other-user: names another actor of a recorded run; choose another name",
		"kubelet":               "kubelet: names another actor of a recorded run; choose another name",
		"stage":                 "stage: names another actor of a recorded run; choose another name",
		"b":                     "b: is the name of another client; choose another name",
		"A":                     "A: must be lower case letters, digits and -, 63 at most",
		"a/0":                   "a/0: must be lower case letters, digits and -, 63 at most",
		"a+":                    "a+: must be lower case letters, digits and -, 63 at most",
		"a.b":                   "a.b: must be lower case letters, digits and -, 63 at most",
		strings.Repeat("a", 63): "",
		strings.Repeat("a", 64): strings.Repeat("a", 59) + "…: must be lower case letters, digits and -, 63 at most",
		`""`:                    "is missing",
	} {
		_, err := parse("  clients: [{name: b, command: [b]}, {name: "+name+", command: [c]}]\n", nil)
		var all []string
		if want != "" {
			all = []string{"spec.clients[1].name: " + want}
		}
		equal(t, name, all, problems(t, err))
	}
}

// TestCommands: commands and their environment use known words only; env and dir are for commands, feature gates for
// builtins.
func TestCommands(t *testing.T) {
	const words = "is not a known word; want one of kubeconfig, namespace, dir, port, port:x, name"
	for client, want := range map[string][]string{
		`command: [x, "{{kubeconfig}} {{namespace}} {{dir}} {{port}} {{ port:web }} {{name}}"]`: nil,
		`command: [x, "{{port:x}}", "{{port:a-b}}"]`:                                            nil,
		"command: [x], env: [{name: A}, {name: B, value: '{{dir}}/b'}], dir: sub":               nil,
		"builtin: job, featureGates: {A: true, B: false}":                                       nil,
		"command: []":                                    {".command: must begin with a program"},
		"command: ['', a]":                               {".command: must begin with a program"},
		"command: [x, '{{home}}']":                       {".command[1]: {{home}}: {{home}} " + words},
		"command: [x, '{{Name}}']":                       {".command[1]: {{Name}}: {{Name}} " + words},
		"command: [x, '{{}}']":                           {".command[1]: {{}}: {{}} " + words},
		"command: [x, '{{port:}}']":                      {".command[1]: {{port:}}: {{port:}} " + words},
		"command: [x, 'a{{name']":                        {".command[1]: a{{name: {{ without }}"},
		`command: [x, "a\0b"]`:                           {".command[1]: must not have a NUL"},
		`command: [x], env: [{name: A, value: "a\0b"}]`:  {".env[0].value: must not have a NUL"},
		"command: [x], env: [{name: A}, {name: A}]":      {".env[1].name: A: is set twice; remove one"},
		"command: [x], env: [{name: 'A=B'}, {value: c}]": {".env[0].name: A=B: must be the name of a variable", ".env[1].name: must be the name of a variable"},
		"command: [x], env: [{name: KUBECONFIG}]":        {".env[0].name: KUBECONFIG: is set to {{kubeconfig}} for every command; leave it out"},
		"command: [x], featureGates: {A: true}":          {".featureGates: are for a builtin; pass them to a command by its own flags"},
		"command: [x], builtin: job":                     {": must not have both command and builtin"},
		"builtin: ''":                                    {".builtin: must name a controller"},
		"builtin: job, env: [{name: A}], dir: b":         {".env: is for commands; a builtin has none", ".dir: is for commands; a builtin has none"},
	} {
		_, err := parse("  clients: [{name: a, "+client+"}]\n", nil)
		for i := range want {
			want[i] = "spec.clients[0]" + want[i]
		}
		equal(t, client, want, problems(t, err))
	}
}

// TestClientsWithoutCommand: one client may wait for the command of the command line, two may not.
func TestClientsWithoutCommand(t *testing.T) {
	for clients, want := range map[string]string{
		"[]":                     "spec.clients: at least one client is needed: a program under test",
		"[{name: a}, {name: b}]": "spec.clients[1]: has neither command nor builtin, and neither has a; only one command can be given on the command line",
		"[{name: a}, {name: b, builtin: job}, {name: c, command: [c]}]": "needs a",
		"[{name: a, builtin: job}]":                                     "needs ",
	} {
		s, err := parse("  clients: "+clients+"\n", nil)
		got := strings.Join(problems(t, err), "\n")
		if err == nil {
			got = "needs " + s.NeedsCommand()
		}
		equal(t, clients, want, got)
	}
	_, err := parseText(head + "  steps: []\n")
	equal(t, "no clients", "s.yaml:4: spec.clients: at least one client is needed: a program under test", fmt.Sprint(err))
}

// TestDirIsRelative: the directory of a command is next to the scenario, unless it is absolute.
func TestDirIsRelative(t *testing.T) {
	for dir, want := range map[string]string{"sub": "some/sub", "..": ".", "/abs": "/abs", "./": "some"} {
		s, err := scenario.Read("some/s.yaml", []byte(head+"  clients: [{name: a, command: [x], dir: "+dir+"}]\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, dir, want, s.Clients[0].Dir)
		equal(t, "in the document", dir, s.Document().Spec.Clients[0].Dir)
	}
}

// FuzzExpand: without words a text stays as it is; with them no {{ is left, and an error names what it rejects.
func FuzzExpand(f *testing.F) {
	for _, text := range []string{"", "a", "{{name}}", "{{ name }}{{", "}}{{name", "{{{{name}}}}", "{{a}}", "{ {name} }"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := scenario.Expand(text, func(word string) (string, bool) { return "X", word == "name" })
		switch {
		case err == nil && !strings.Contains(text, "{{") && got != text:
			t.Errorf("%q becomes %q", text, got)
		case err == nil && strings.Contains(strings.ReplaceAll(got, "X", ""), "{{") && !strings.Contains(got, "X"):
			t.Errorf("%q becomes %q, which has a word", text, got)
		case err != nil && !strings.Contains(err.Error(), "{{"):
			t.Errorf("%q: %v", text, err)
		}
		if err == nil && strings.Count(got, "X") < strings.Count(text, "{{name}}") {
			t.Errorf("%q becomes %q", text, got)
		}
	})
}
