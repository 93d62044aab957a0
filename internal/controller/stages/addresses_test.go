package stages

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

func newTestAddresses() *addresses {
	return newAddresses(1, "", netip.MustParsePrefix("10.0.0.0/28"), netip.MustParsePrefix("10.1.0.0/28"))
}

func nodeWith(name string, cidrs ...string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: corev1.NodeSpec{PodCIDRs: cidrs}}
}

func podWith(uid types.UID, ips ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}
	for i, ip := range ips {
		if i == 0 {
			p.Status.PodIP = ip
		}
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	return p
}

func TestPools(t *testing.T) {
	for prefix, want := range map[string]struct {
		first, last string
		count       uint64
	}{
		"10.1.0.0/24":    {"10.1.0.2", "10.1.0.254", 253},
		"10.1.0.77/24":   {"10.1.0.2", "10.1.0.254", 253},
		"10.1.0.0/30":    {"10.1.0.0", "10.1.0.3", 4},
		"10.1.0.9/32":    {"10.1.0.9", "10.1.0.9", 1},
		"10.128.0.0/9":   {"10.128.0.2", "10.255.255.254", 1<<23 - 3},
		"fd00::/64":      {"fd00::2", "fd00::ffff:ffff", 1<<32 - 2},
		"fd00::ff00/120": {"fd00::ff02", "fd00::ffff", 254},
	} {
		p := newPool(netip.MustParsePrefix(prefix))
		first, last := p.at(p.first).String(), p.at(p.first+p.count-1).String()
		if first != want.first || last != want.last || p.count != want.count {
			t.Errorf("%s: %s to %s, %d of them", prefix, first, last, p.count)
		}
	}
}

// TestPodRangeEnds checks that a full range assigns no more addresses, and assigns released ones again.
func TestPodRangeEnds(t *testing.T) {
	a := newTestAddresses()
	a.observeNode("n", "n", nodeWith("n", "10.2.0.0/29"))
	seen := map[string]types.UID{}
	for i := range 5 { // 8 without network, gateway and broadcast address
		uid := types.UID(fmt.Sprint(i))
		ips, err := a.podIPs(uid, "n")
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[ips[0]]; ok {
			t.Fatalf("%s has %s already", other, ips[0])
		}
		seen[ips[0]] = uid
	}
	if _, err := a.podIPs("one more", "n"); err == nil || err.Error() != "no free pod address in 10.2.0.0/29" {
		t.Fatalf("got %v", err)
	}
	a.observePod("3", nil)
	if _, err := a.podIPs("one more", "n"); err != nil {
		t.Fatal(err)
	}
}

func TestPodAddresses(t *testing.T) {
	t.Run("asked twice", func(t *testing.T) {
		a := newTestAddresses()
		first, _ := a.podIPs("u", "n")
		again, _ := a.podIPs("u", "n")
		if first[0] != again[0] {
			t.Errorf("%s, then %s", first[0], again[0])
		}
	})
	t.Run("both families", func(t *testing.T) {
		a := newTestAddresses()
		a.observeNode("n", "n", nodeWith("n", "10.2.0.0/24", "fd00::/64"))
		ips, err := a.podIPs("u", "n")
		if err != nil || len(ips) != 2 || !netip.MustParseAddr(ips[1]).Is6() {
			t.Errorf("got %v, %v", ips, err)
		}
	})
	t.Run("one full family assigns nothing and keeps nothing", func(t *testing.T) {
		a := newTestAddresses()
		a.observeNode("n", "n", nodeWith("n", "10.2.0.0/24", "fd00::1/128"))
		if _, err := a.podIPs("u", "n"); err != nil {
			t.Fatal(err)
		}
		if _, err := a.podIPs("v", "n"); err == nil {
			t.Fatal("podIPs returned addresses although the second family is full")
		}
		if len(a.owners) != 2 {
			t.Errorf("%d addresses are assigned", len(a.owners))
		}
	})
	t.Run("a pod keeps its addresses", func(t *testing.T) {
		a := newAddresses(1, "", netip.MustParsePrefix("10.0.0.0/28"), netip.MustParsePrefix("10.1.0.9/32"))
		a.observePod("old", podWith("old", "10.1.0.9"))
		if ips, err := a.podIPs("new", "n"); err == nil {
			t.Errorf("assigned %v twice", ips)
		}
		if ips, _ := a.podIPs("old", "n"); ips[0] != "10.1.0.9" {
			t.Errorf("moved to %v", ips)
		}
	})
	t.Run("the address of a finished pod is released", func(t *testing.T) {
		a := newAddresses(1, "", netip.MustParsePrefix("10.0.0.0/28"), netip.MustParsePrefix("10.1.0.9/32"))
		p := podWith("old", "10.1.0.9")
		a.observePod("old", p)
		p.Status.Phase = corev1.PodSucceeded
		a.observePod("old", p)
		if _, err := a.podIPs("new", "n"); err != nil {
			t.Error(err)
		}
		a.observePod("old", nil) // the late delete does not release the new pod's address
		if _, err := a.podIPs("third", "n"); err == nil {
			t.Error("the new pod's address was assigned again")
		}
	})
	t.Run("ranges that overlap", func(t *testing.T) {
		a := newAddresses(1, "", netip.MustParsePrefix("10.0.0.0/28"), netip.MustParsePrefix("10.2.0.0/29"))
		a.observeNode("n", "n", nodeWith("n", "10.2.0.0/29"))
		seen := map[string]bool{}
		for i, node := range []string{"n", "other", "n", "other", "n"} {
			ips, err := a.podIPs(types.UID(fmt.Sprint(i)), node)
			if err != nil || seen[ips[0]] {
				t.Fatalf("%v, %v", ips, err)
			}
			seen[ips[0]] = true
		}
	})
	t.Run("a pod on the host network gets no address", func(t *testing.T) {
		a := newTestAddresses()
		p := podWith("u", "10.0.0.5")
		p.Spec.HostNetwork = true
		a.observePod("u", p)
		if len(a.owners) != 0 {
			t.Error("the pod owns the node's address")
		}
	})
}

func TestNodeAddresses(t *testing.T) {
	a := newTestAddresses()
	if _, err := a.nodeIPs("unknown"); err == nil {
		t.Error("an unknown node has an address")
	}
	a.observeNode("n", "n", nodeWith("n"))
	given, err := a.nodeIPs("n")
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := a.nodeIPs("n"); again[0] != given[0] {
		t.Errorf("%v, then %v", given, again)
	}
	own := nodeWith("m")
	own.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "m"}, {Type: corev1.NodeInternalIP, Address: "192.0.2.1"}, {Type: corev1.NodeInternalIP, Address: "2001:db8::1"}}
	a.observeNode("m", "m", own)
	if ips, _ := a.nodeIPs("m"); len(ips) != 2 || ips[0] != "192.0.2.1" {
		t.Errorf("got %v", ips)
	}
	a.observeNode("other uid", "n", nil) // an earlier node of that name
	if again, _ := a.nodeIPs("n"); again[0] != given[0] {
		t.Errorf("%v, then %v", given, again)
	}
	a.observeNode("n", "n", nil)
	a.observeNode("m", "m", nil)
	if len(a.owners) != 0 || len(a.nodes) != 0 {
		t.Errorf("left behind: %v %v", a.owners, a.nodes)
	}
	shared := newAddresses(1, "192.0.2.9", netip.MustParsePrefix("10.0.0.0/28"), netip.MustParsePrefix("10.1.0.0/28"))
	if ips, _ := shared.nodeIPs("any"); ips[0] != "192.0.2.9" {
		t.Errorf("got %v", ips)
	}
}

// TestAddressesAreNeverShared creates, finishes and deletes pods in random order.
func TestAddressesAreNeverShared(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a := newTestAddresses()
		a.observeNode("n", "n", nodeWith("n", "10.1.0.0/29"))
		has := map[types.UID]string{}
		uid := rapid.SampledFrom([]types.UID{"a", "b", "c", "d", "e", "f", "g"})
		r.Repeat(map[string]func(*rapid.T){
			"start": func(r *rapid.T) {
				u := uid.Draw(r, "uid")
				ips, err := a.podIPs(u, rapid.SampledFrom([]string{"n", "m"}).Draw(r, "node"))
				if err == nil {
					if old, ok := has[u]; ok && old != ips[0] {
						r.Fatalf("%s moved from %s to %s", u, old, ips[0])
					}
					has[u] = ips[0]
				}
			},
			"echo": func(r *rapid.T) {
				u := uid.Draw(r, "uid")
				if ip, ok := has[u]; ok {
					a.observePod(u, podWith(u, ip))
				}
			},
			"end": func(r *rapid.T) {
				u := uid.Draw(r, "uid")
				p := podWith(u, has[u])
				p.Status.Phase = corev1.PodFailed
				a.observePod(u, p)
				delete(has, u)
			},
			"": func(r *rapid.T) {
				owners := map[string]types.UID{}
				for u, ip := range has {
					if other, ok := owners[ip]; ok {
						r.Fatalf("%s and %s have %s", u, other, ip)
					}
					owners[ip] = u
				}
				if len(a.owners) != len(has) {
					r.Fatalf("%d addresses are assigned to %d pods", len(a.owners), len(has))
				}
			},
		})
	})
}
