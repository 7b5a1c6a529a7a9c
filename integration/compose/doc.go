// Package compose tests docker-compose.yml and what the folder deploy provisions, as far as that can be done without
// Docker. It is a module of its own for the sake of compose-go.
package compose
