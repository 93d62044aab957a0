package scenario

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
)

// reserved are the actors that a record may have: also those of an interfering user, of an existing cluster, and of the controllers of a run.
var reserved = []string{"user", "kubelet", "other-user", "cluster", "controllers"}

func (c *checker) clients(a at) {
	s := c.s
	if len(s.Spec.Clients) == 0 {
		c.report(a, "", "at least one client is needed: a program under test")
	}
	names := map[string]bool{}
	without := ""
	for i := range s.Spec.Clients {
		client, one := s.Spec.Clients[i], a.item(i)
		switch wrong := validation.IsDNS1123Label(client.Name); {
		case client.Name == "":
			c.report(one.field("name"), "", "is missing")
		case len(wrong) > 0:
			c.report(one.field("name"), client.Name, "must be lower case letters, digits and -, 63 at most")
		case names[client.Name]:
			c.report(one.field("name"), client.Name, "is the name of another client; choose another name")
		case slices.Contains(reserved, client.Name) || slices.Contains(s.Controllers, client.Name):
			c.report(one.field("name"), client.Name, "names another actor of a recorded run; choose another name")
		}
		names[client.Name] = true
		command, builtin := one.field("command").given(), one.field("builtin").given()
		switch {
		case command && builtin:
			c.report(one, "", "must not have both command and builtin")
		case builtin:
			c.builtin(one, &client)
		case command:
			c.command(one.field("command"), client.Command)
		case without != "":
			c.report(one, "", "has neither command nor builtin, and neither has %s; only one command can be given on the command line", without)
		default:
			without = client.Name
		}
		if !builtin && len(client.FeatureGates) > 0 {
			c.report(one.field("featureGates"), "", "are for a builtin; pass them to a command by its own flags")
		}
		switch client.LeaderElection {
		case "", withoutLeaderElection, withLease:
		default:
			c.report(one.field("leaderElection"), client.LeaderElection, "must be none or lease")
		}
		c.environment(one.field("env"), client.Env)
		c.identity(one.field("as"), client.As)
		if client.Dir != "" {
			client.Dir = c.resolve(client.Dir)
		}
		s.Clients = append(s.Clients, client)
	}
}

// identity checks the user or ServiceAccount of a client.
func (c *checker) identity(a at, as *v1alpha1.Identity) {
	if as == nil {
		return
	}
	account, user := a.field("serviceAccount"), a.field("user")
	if (as.ServiceAccount == "") == (as.User == "") {
		c.report(a, "", "must have either serviceAccount or user; leave it out for a client that may do everything")
	}
	if account.given() {
		namespace, name, both := strings.Cut(as.ServiceAccount, "/")
		if !both || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
			c.report(account, as.ServiceAccount, "must be namespace/name of a ServiceAccount, such as default/operator")
		}
		if len(as.Groups) > 0 {
			c.report(a.field("groups"), strings.Join(as.Groups, ", "), "are for user; a ServiceAccount has the groups of its namespace")
		}
	}
	if strings.HasPrefix(as.User, serviceAccountPrefix) {
		c.report(user, as.User, "is a ServiceAccount; write it as serviceAccount: namespace/name")
	}
	for i, group := range as.Groups {
		if group == "" {
			c.report(a.field("groups").item(i), "", "must name a group")
		}
	}
}

// serviceAccountPrefix begins the user names of ServiceAccounts.
const serviceAccountPrefix = "system:serviceaccount:"

// User returns the user name and groups of a client. The API server derives the groups of a ServiceAccount
// from its name.
func User(c *v1alpha1.Client) (name string, groups []string) {
	switch as := c.As; {
	case as == nil:
		return "rehearse:client", []string{"system:masters"}
	case as.ServiceAccount != "":
		return serviceAccountPrefix + strings.ReplaceAll(as.ServiceAccount, "/", ":"), nil
	default:
		return as.User, as.Groups
	}
}

// Rights describes the rights of a client in words.
func Rights(c *v1alpha1.Client) string {
	switch as := c.As; {
	case as == nil:
		return "all (group system:masters)"
	case as.ServiceAccount != "":
		return "those of ServiceAccount " + as.ServiceAccount
	case len(as.Groups) > 0:
		return fmt.Sprintf("those of user %s in groups %s", as.User, strings.Join(as.Groups, ", "))
	default:
		return "those of user " + as.User
	}
}

func (c *checker) builtin(a at, client *v1alpha1.Client) {
	if client.Builtin == "" {
		c.report(a.field("builtin"), "", "must name a controller")
	}
	for _, name := range []string{"env", "dir"} {
		if a.field(name).given() {
			c.report(a.field(name), "", "is for commands; a builtin has none")
		}
	}
}

func (c *checker) command(a at, command []string) {
	if len(command) == 0 || command[0] == "" {
		c.report(a, "", "must begin with a program")
	}
	for i, argument := range command {
		c.wordsOf(a.item(i), argument)
	}
}

func (c *checker) environment(a at, env []v1alpha1.EnvVar) {
	names := map[string]bool{}
	for i, e := range env {
		one := a.item(i)
		switch {
		case e.Name == "" || strings.ContainsAny(e.Name, "=\x00"):
			c.report(one.field("name"), e.Name, "must be the name of a variable")
		case e.Name == "KUBECONFIG":
			c.report(one.field("name"), e.Name, "is set to {{kubeconfig}} for every command; leave it out")
		case names[e.Name]:
			c.report(one.field("name"), e.Name, "is set twice; remove one")
		}
		names[e.Name] = true
		c.wordsOf(one.field("value"), e.Value)
	}
}

// wordsOf checks the words of a text. Their values are not known yet.
func (c *checker) wordsOf(a at, text string) {
	if strings.ContainsRune(text, 0) {
		c.report(a, "", "must not have a NUL")
	}
	if _, err := Expand(text, func(word string) (string, bool) { return "", isWord(word) }); err != nil {
		c.report(a, text, "%v", err)
	}
}

// Words returns the words that commands and their environment may use between {{ and }}.
func Words() []string { return []string{"kubeconfig", "namespace", "dir", "port", "port:x", "name"} }

// isWord reports whether a word is known. Any number of ports can be named.
func isWord(word string) bool {
	if port, ok := strings.CutPrefix(word, "port:"); ok {
		return len(validation.IsDNS1123Label(port)) == 0
	}
	return slices.Contains(Words(), word) && word != "port:x"
}

// Expand replaces each {{word}} by its value. An unknown word is an error, as is a {{ without }}. Values are
// not expanded again.
func Expand(text string, words func(word string) (string, bool)) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{{")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		inside, after, closed := strings.Cut(rest, "}}")
		if !closed {
			return "", fmt.Errorf("{{ without }}")
		}
		word := strings.TrimSpace(inside)
		is, known := words(word)
		if !known {
			return "", fmt.Errorf("{{%s}} is not a known word; want one of %s", word, strings.Join(Words(), ", "))
		}
		b.WriteString(is)
		text = after
	}
}

// NeedsCommand returns the name of the client without a command, and "" if each has one.
func (s *Scenario) NeedsCommand() string {
	for i := range s.Clients {
		if c := &s.Clients[i]; len(c.Command) == 0 && c.Builtin == "" {
			return c.Name
		}
	}
	return ""
}

// SetCommand sets the COMMAND of the command line for the client that has none. If each has one, it
// replaces the command of the only client that has a command and is not a builtin.
func (s *Scenario) SetCommand(args []string) error {
	if len(args) == 0 || args[0] == "" {
		return fmt.Errorf("%s: the command after -- is empty; write a program and its arguments", s.File)
	}
	for _, argument := range args {
		if _, err := Expand(argument, func(word string) (string, bool) { return "", isWord(word) }); err != nil {
			return fmt.Errorf("%s: the command after --: %s: %w", s.File, argument, err)
		}
	}
	which, commands := -1, []string{}
	for i := range s.Clients {
		switch c := &s.Clients[i]; {
		case len(c.Command) > 0:
			commands = append(commands, c.Name)
			if len(commands) == 1 {
				which = i
			}
		case c.Builtin == "":
			s.setCommand(i, args)
			return nil
		}
	}
	switch len(commands) {
	case 0:
		return fmt.Errorf("%s: every client is a builtin, and a command cannot take its place; leave out what follows --", s.File)
	case 1:
		s.setCommand(which, args)
		return nil
	}
	return fmt.Errorf("%s: clients %s have commands, and one after -- could be meant for any; leave it out, or take the command of the one that is meant out of the scenario",
		s.File, strings.Join(commands, ", "))
}

// setCommand changes neither the environment nor the directory of the client.
func (s *Scenario) setCommand(i int, args []string) {
	s.Clients[i].Command = slices.Clone(args)
	s.Spec.Clients = slices.Clone(s.Spec.Clients)
	s.Spec.Clients[i].Command = slices.Clone(args)
}
