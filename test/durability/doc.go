// Package durability tests `rehearse up --data-dir`: every acknowledged write exists after the process was killed, and
// after its disk was full. Each test starts this test binary as rehearse, in processes of its own that it can kill.
//
// It does not test the store in memory, nor snapshots: they have their own tests. It contains no other code, and it
// belongs to no floor: nothing imports it. These tests are apart from those of internal/cli because they take
// minutes on two cores.
package durability
