package render

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"text/template"

	"k8s.io/apimachinery/pkg/types"
)

// Chance is what the random functions of templates are keyed by: the same
// object in the same stage draws the same, on every machine.
type Chance struct {
	Seed   uint64
	UID    types.UID
	Stage  string
	Played uint64
}

// stream is a sequence of bytes that depends on its key and nothing else.
type stream struct {
	key   [sha256.Size]byte
	block uint64
	left  []byte
}

// stream begins a new one for each function that is called.
func (s *session) stream() *stream {
	s.drawn++
	c := s.Chance
	key := fmt.Sprintf("%d %d %d %d %q %q", c.Seed, c.Played, s.Step, s.drawn, c.UID, c.Stage)
	return &stream{key: sha256.Sum256([]byte(key))}
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	for n := 0; n < len(p); {
		if len(s.left) == 0 {
			block := sha256.Sum256(binary.BigEndian.AppendUint64(s.key[:], s.block))
			s.block++
			s.left = block[:]
		}
		done := copy(p[n:], s.left)
		s.left, n = s.left[done:], n+done
	}
	return len(p), nil
}

// below is a number in [0, n).
func (s *stream) below(n uint64) uint64 {
	var b [8]byte
	_, _ = s.Read(b[:])
	return binary.BigEndian.Uint64(b[:]) % n
}

func (s *session) random(n int, alphabet string) (string, error) {
	if n < 0 || n > mostRandom {
		return "", fmt.Errorf("%d random characters: only 0 to %d can be drawn", n, mostRandom)
	}
	from, out := s.stream(), make([]byte, n)
	for i := range out {
		out[i] = alphabet[from.below(uint64(len(alphabet)))]
	}
	return string(out), nil
}

const (
	digits  = "0123456789"
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// ascii are the characters from space to tilde.
var ascii = func() string {
	var out []byte
	for c := byte(' '); c <= '~'; c++ {
		out = append(out, c)
	}
	return string(out)
}()

// chanceFunctions are sprig's, keyed.
func (s *session) chanceFunctions() template.FuncMap {
	return template.FuncMap{
		"randAlphaNum": func(n int) (string, error) { return s.random(n, letters+digits) },
		"randAlpha":    func(n int) (string, error) { return s.random(n, letters) },
		"randNumeric":  func(n int) (string, error) { return s.random(n, digits) },
		"randAscii":    func(n int) (string, error) { return s.random(n, ascii) },
		"randBytes": func(n int) (string, error) {
			if n < 0 || n > mostRandom {
				return "", fmt.Errorf("%d random bytes: only 0 to %d can be drawn", n, mostRandom)
			}
			out := make([]byte, n)
			_, err := s.stream().Read(out)
			return base64.StdEncoding.EncodeToString(out), err
		},
		"randInt": func(least, limit int) (int, error) {
			if limit <= least {
				return 0, errors.New("randInt needs a limit above its least number")
			}
			return least + int(s.stream().below(uint64(limit)-uint64(least))), nil
		},
		"shuffle": func(text string) string {
			from, runes := s.stream(), []rune(text)
			for i := len(runes) - 1; i > 0; i-- {
				j := from.below(uint64(i + 1))
				runes[i], runes[j] = runes[j], runes[i]
			}
			return string(runes)
		},
		"uuidv4": func() string {
			var u [16]byte
			_, _ = s.stream().Read(u[:])
			u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
			return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
		},
	}
}
