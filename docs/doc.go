// Package docs holds no code: its tests do what the documentation tells readers to do,
// and compare what they see with what it says.
package docs
