package proxy_test

import (
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rehearse-k8s/rehearse/internal/proxy"
)

// whoAmI returns the user and groups that the server sees.
func whoAmI(t *testing.T, client kubernetes.Interface) (string, []string, error) {
	t.Helper()
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", nil, err
	}
	return review.Status.UserInfo.Username, review.Status.UserInfo.Groups, nil
}

// TestIdentity: a client keeps its user, with a certificate or a token, during a run and without
// one; and no client becomes another user.
func TestIdentity(t *testing.T) {
	p := newProxy(t)
	alice, err := user("alice", "team")
	must(t, err)
	bob, err := user("bob")
	must(t, err)
	ns := namespace(t)
	_, err = direct.CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	must(t, err)
	token, err := direct.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	robot := rest.AnonymousClientConfig(admin)
	robot.BearerToken = token.Status.Token
	listener, err := p.Listen("alice", alice)
	must(t, err)
	t.Cleanup(func() { must(t, listener.Close()) })
	withCertificateOf := func(who *rest.Config) *rest.Config {
		c := listener.Config()
		c.CertData, c.KeyData = who.CertData, who.KeyData
		return c
	}
	impersonating := listener.Config()
	impersonating.Impersonate.UserName = "root"
	boss, err := user("boss", "system:masters")
	must(t, err)
	bossListener, err := p.Listen("boss", boss)
	must(t, err)
	t.Cleanup(func() { must(t, bossListener.Close()) })
	asJane := bossListener.Config()
	asJane.Impersonate = rest.ImpersonationConfig{UserName: "jane", Groups: []string{"visitors"}, Extra: map[string][]string{"example.com/why": {"a look"}}}
	asAccount := bossListener.Config()
	asAccount.Impersonate.UserName = "system:serviceaccount:" + ns + ":robot"
	robotsListener, err := p.Listen("robot", robot)
	must(t, err)
	t.Cleanup(func() { must(t, robotsListener.Close()) })

	check := func(t *testing.T) {
		for name, c := range map[string]struct {
			config     *rest.Config
			user, with string
			rejected   func(error) bool
		}{
			"a certificate":                    {config: listener.Config(), user: "alice", with: "team"},
			"a token":                          {config: robotsListener.Config(), user: "system:serviceaccount:" + ns + ":robot", with: "system:serviceaccounts"},
			"another user's certificate":       {config: withCertificateOf(bob), rejected: apierrors.IsUnauthorized},
			"nothing":                          {config: rest.AnonymousClientConfig(listener.Config()), rejected: apierrors.IsUnauthorized},
			"impersonation without permission": {config: impersonating, rejected: apierrors.IsForbidden},
			"impersonation with permission":    {config: asJane, user: "jane", with: "visitors"},
			"and of an account":                {config: asAccount, user: "system:serviceaccount:" + ns + ":robot", with: "system:serviceaccounts"},
		} {
			client, err := kubernetes.NewForConfig(c.config)
			must(t, err)
			is, groups, err := whoAmI(t, client)
			if c.rejected != nil {
				if !c.rejected(err) {
					t.Errorf("%s: %q, %v", name, is, err)
				}
				continue
			}
			if err != nil || is != c.user || !strings.Contains(strings.Join(groups, " "), c.with) {
				t.Errorf("%s: %q in %q, %v", name, is, groups, err)
			}
		}
	}
	t.Run("without a run", check)
	begin(t, p, proxy.Hooks{})
	t.Run("in a run", check)
}

// TestEarlyRejection: a server that rejects a client does not read its body. The client then stops
// sending, and receives the whole answer.
func TestEarlyRejection(t *testing.T) {
	p := newProxy(t)
	d, err := p.Listen("anonymous", rest.AnonymousClientConfig(admin))
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	client, err := rest.HTTPClientFor(d.Config())
	must(t, err)
	client.Timeout = 10 * time.Second
	body, send := io.Pipe()
	slowly := time.AfterFunc(200*time.Millisecond, func() {
		_, _ = send.Write([]byte(`{}`)) // a client that has the answer does not send it
		_ = send.Close()
	})
	defer slowly.Stop()
	resp, err := client.Post(d.URL()+"/api/v1/namespaces", "application/json", body)
	must(t, err)
	defer resp.Body.Close() //nolint:errcheck // it is read
	if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("%s, %v", resp.Status, err)
	}
}

// TestKubeconfig: the file has the address of the listener, the same user, and the namespace.
func TestKubeconfig(t *testing.T) {
	p := newProxy(t)
	alice, err := user("alice")
	must(t, err)
	d, err := p.Listen("alice", alice)
	must(t, err)
	defer func() { must(t, d.Close()) }()
	file, err := d.Kubeconfig("there")
	must(t, err)
	loaded, err := clientcmd.NewClientConfigFromBytes(file)
	must(t, err)
	if ns, _, err := loaded.Namespace(); err != nil || ns != "there" {
		t.Errorf("namespace %q, %v", ns, err)
	}
	config, err := loaded.ClientConfig()
	must(t, err)
	if config.Host != d.URL() || !strings.HasPrefix(d.URL(), "https://127.0.0.1:") {
		t.Errorf("%s is not %s", config.Host, d.URL())
	}
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	if is, _, err := whoAmI(t, client); err != nil || is != "alice" {
		t.Errorf("%q, %v", is, err)
	}
}

// TestImpersonationHeaders: a client does not become the proxy's own user by headers that the API
// server ignores, or that are removed on the way.
func TestImpersonationHeaders(t *testing.T) {
	p := newProxy(t)
	alice, err := user("alice")
	must(t, err)
	d, err := p.Listen("alice", alice)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	boss, err := user("boss", "system:masters")
	must(t, err)
	bosses, err := p.Listen("boss", boss)
	must(t, err)
	t.Cleanup(func() { must(t, bosses.Close()) })
	check := func(t *testing.T) {
		for name, c := range map[string]struct {
			listener *proxy.Listener
			header   http.Header
			code     int
			says     string
		}{
			"nothing":             {d, nil, 403, `User \"alice\" cannot list resource \"secrets\"`},
			"an empty user":       {d, http.Header{"Impersonate-User": {""}}, 400, "header Impersonate-User: is empty"},
			"an unknown header":   {d, http.Header{"Impersonate-Foo": {"x"}}, 400, "header Impersonate-Foo: unknown"},
			"in small letters":    {d, http.Header{"impersonate-foo": {"x"}}, 400, "header Impersonate-Foo: unknown"},
			"the prefix alone":    {d, http.Header{"Impersonate-": {"x"}}, 400, "header Impersonate-: unknown"},
			"an empty UID":        {d, http.Header{"Impersonate-Uid": {""}}, 400, "header Impersonate-Uid: is empty"},
			"an empty group":      {d, http.Header{"Impersonate-Group": {""}}, 400, "header Impersonate-Group: is empty"},
			"extra without key":   {d, http.Header{"Impersonate-Extra-": {"x"}}, 400, "header Impersonate-Extra-: names no key"},
			"a group alone":       {d, http.Header{"Impersonate-Group": {"system:masters"}}, 400, "headers Impersonate-Group: need Impersonate-User"},
			"a UID alone":         {d, http.Header{"Impersonate-Uid": {"1"}}, 400, "headers Impersonate-Uid: need Impersonate-User"},
			"extra alone":         {d, http.Header{"Impersonate-Extra-A": {"x"}}, 400, "headers Impersonate-Extra-A: need Impersonate-User"},
			"two users":           {d, http.Header{"Impersonate-User": {"alice", "root"}}, 400, "header Impersonate-User: has 2 values"},
			"as of a connection":  {d, http.Header{"Connection": {"Impersonate-User, Impersonate-Group"}}, 403, `User \"alice\" cannot list`},
			"with an upgrade":     {d, http.Header{"Connection": {"Upgrade, Impersonate-User"}, "Upgrade": {"none"}}, 403, `User \"alice\" cannot list`},
			"a user who may not":  {d, http.Header{"Impersonate-User": {"root"}}, 403, `user \"alice\" cannot impersonate resource \"users\"`},
			"empty, of a master":  {bosses, http.Header{"Impersonate-User": {""}}, 400, "header Impersonate-User: is empty"},
			"of a master":         {bosses, http.Header{"Impersonate-User": {"jane"}, "Impersonate-Uid": {"1"}}, 403, `User \"jane\" cannot list`},
			"of a master, listed": {bosses, http.Header{"Impersonate-User": {"jane"}, "Connection": {"Impersonate-User"}}, 403, `User \"jane\" cannot list`},
		} {
			config := c.listener.Config()
			config.NextProtos = []string{"http/1.1"} // which has headers of a connection
			client, err := rest.HTTPClientFor(config)
			must(t, err)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.listener.URL()+"/api/v1/secrets", http.NoBody)
			must(t, err)
			maps.Copy(r.Header, c.header)
			resp, err := client.Do(r)
			must(t, err)
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != c.code || !strings.Contains(string(body), c.says) || !strings.Contains(string(body), `"kind":"Status"`) {
				t.Errorf("%s: %d %s, %v; want %d %s", name, resp.StatusCode, body, err, c.code, c.says)
			}
		}
	}
	t.Run("without a run", check)
	begin(t, p, proxy.Hooks{})
	t.Run("in a run", check)
}
