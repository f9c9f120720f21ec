// A client of the scorer in Go: the standard library, Go 1.18 or newer, and no module. Redis is the wire, so in any
// language it is no more than this: push a query, wait on the list of its id. Copy the file, less its main.
//
//	export WINDWARD_REDIS_URL=redis://127.0.0.1:6379/0
//	go run client.go place '{"id": "orders-7", "cpu": 2, "memory": "10G"}'
//	go run client.go confirm '{"id": "orders-7", "generation": 4711}'
//	go run client.go release '{"id": "orders-7"}'
//
// `generation` is in the answer of `place`: with it a step is taken on that reservation only, and refused
// (FAILED_PRECONDITION) when it has ended and the name was placed anew. Without it the step is on whichever is live.
//
// Exit codes are those of `windward`: 0 done, 1 failed, 2 wrong usage, 3 no machine fits, 4 no answer in time.
package main

import (
	"bufio"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Error is a call that failed: Code is gRPC's name, Retryable says whether the same call may succeed later.
type Error struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Client says where to ask: a redis:// or rediss:// URL, the prefix of the fleet, and how long a call may take.
type Client struct {
	URL     string
	Prefix  string
	Timeout time.Duration
}

// Call asks one query and reads its result. "No machine fits" is an answer: `machine` is null.
//
// A broken connection is opened again and the query sent again under the same id: whatever it asks is done once. When
// what it reserved has ended meanwhile the error is ABORTED. Give `place` an id of your own: while that is live, a
// call repeated by you gives the same answer; once it has ended, the call places it anew.
func (c Client) Call(method string, params, result any) error {
	address, err := url.Parse(c.URL)
	if err != nil {
		return &Error{Code: "INVALID_ARGUMENT", Message: "url: " + err.Error()}
	}
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	id := hex.EncodeToString(random)
	deadline := time.Now().Add(c.Timeout)
	query, err := json.Marshal(map[string]any{
		"v": 1, "id": id, "method": method, "params": params,
		"deadline": float64(deadline.UnixMilli()) / 1000,
	})
	if err != nil {
		return &Error{Code: "INVALID_ARGUMENT", Message: "params: " + err.Error()}
	}
	queries := c.Prefix + ":v1:queries"
	switch method {
	case "cordon", "uncordon", "drain", "plan", "rebalance": // for operators: who may push there is one
		queries += ":operators"
	}
	var away error
	for left := c.Timeout; left > 0; left = time.Until(deadline) {
		wait := strconv.FormatFloat(max(left.Seconds(), 0.001), 'f', 3, 64)
		answer, err := send(address, left, []string{"LPUSH", queries, string(query)},
			[]string{"BLPOP", c.Prefix + ":v1:reply:" + id, wait})
		if refused := (*Error)(nil); errors.As(err, &refused) && !refused.Retryable {
			return refused
		}
		if err != nil {
			away = err
			time.Sleep(50 * time.Millisecond)
			continue
		}
		found, _ := answer.([]any)
		if len(found) != 2 {
			_, _ = send(address, time.Second, []string{"LREM", queries, "1", string(query)}) // nobody took it
			return &Error{"DEADLINE_EXCEEDED", fmt.Sprintf("no answer within %v: is a scorer running?", c.Timeout), true}
		}
		text, _ := found[1].(string)
		return read(text, result)
	}
	return &Error{"UNAVAILABLE", fmt.Sprintf("no connection to %s: %v", address.Host, away), true}
}

// read takes the result out of a reply, or the error.
func read(text string, result any) error {
	var reply struct {
		OK     bool            `json:"ok"`
		Result json.RawMessage `json:"result"`
		Error  *Error          `json:"error"`
	}
	if err := json.Unmarshal([]byte(text), &reply); err != nil {
		return &Error{Code: "INTERNAL", Message: "the answer cannot be read: " + err.Error()}
	}
	if !reply.OK {
		if reply.Error == nil {
			return &Error{Code: "INTERNAL", Message: "the answer has neither a result nor an error"}
		}
		return reply.Error
	}
	return json.Unmarshal(reply.Result, result)
}

// send sends commands on a connection of their own, in one write; it returns the last one's answer. Callers by the
// hundred want a pool.
func send(address *url.URL, timeout time.Duration, commands ...[]string) (any, error) {
	var before [][]string
	if password, given := address.User.Password(); given {
		user := address.User.Username()
		if user == "" {
			user = "default"
		}
		before = append(before, []string{"AUTH", user, password})
	}
	if database := strings.TrimPrefix(address.Path, "/"); database != "" {
		before = append(before, []string{"SELECT", database})
	}
	connection, err := open(address, timeout)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(timeout + 500*time.Millisecond))
	commands = append(before, commands...)
	var packed strings.Builder
	for _, words := range commands {
		fmt.Fprintf(&packed, "*%d\r\n", len(words))
		for _, word := range words {
			fmt.Fprintf(&packed, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	if _, err := io.WriteString(connection, packed.String()); err != nil {
		return nil, err
	}
	reader := bufio.NewReader(connection)
	var answer any
	for range commands {
		if answer, err = parse(reader); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

func open(address *url.URL, timeout time.Duration) (net.Conn, error) {
	port := address.Port()
	if port == "" {
		port = "6379"
	}
	dialer := &net.Dialer{Timeout: timeout}
	host := net.JoinHostPort(address.Hostname(), port)
	if address.Scheme == "rediss" {
		return tls.DialWithDialer(dialer, "tcp", host, nil)
	}
	return dialer.Dial("tcp", host)
}

// notNow is what a server answers that will take writes again.
var notNow = regexp.MustCompile("^(LOADING|MISCONF|READONLY|NOREPLICAS|MASTERDOWN|OOM) ")

// parse reads one value: a text, a list of values, or nil; an error of the server is an error.
func parse(reader *bufio.Reader) (any, error) {
	line, err := reader.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, errors.New("not Redis' own form")
	}
	text := line[1 : len(line)-2]
	switch line[0] {
	case '-':
		return nil, &Error{"UNAVAILABLE", text, notNow.MatchString(text)}
	case '$':
		length, err := strconv.Atoi(text)
		if err != nil || length < 0 {
			return nil, err
		}
		value := make([]byte, length+2)
		_, err = io.ReadFull(reader, value)
		return string(value[:length]), err
	case '*':
		length, err := strconv.Atoi(text)
		if err != nil || length < 0 {
			return nil, err
		}
		values := make([]any, length)
		for place := range values {
			if values[place], err = parse(reader); err != nil {
				return nil, err
			}
		}
		return values, nil
	}
	return text, nil
}

func max(a, b float64) float64 {
	if a > b {
		return a
	}
	return b
}

func main() { os.Exit(run(os.Args[1:])) }

func run(words []string) int {
	if len(words) == 0 {
		fmt.Fprintln(os.Stderr, "usage: go run client.go METHOD [PARAMS]")
		return 2
	}
	params := json.RawMessage("{}")
	if len(words) > 1 {
		params = json.RawMessage(words[1])
	}
	var result json.RawMessage
	err := clientOf(os.Getenv).Call(words[0], params, &result)
	var failed *Error
	if errors.As(err, &failed) {
		fmt.Fprintln(os.Stderr, failed)
		if code, known := map[string]int{"INVALID_ARGUMENT": 2, "DEADLINE_EXCEEDED": 4, "UNAVAILABLE": 4}[failed.Code]; known {
			return code
		}
		return 1
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(string(result))
	var answer struct {
		Missing int `json:"missing"`
	}
	if words[0] == "place" && json.Unmarshal(result, &answer) == nil && answer.Missing > 0 {
		return 3
	}
	return 0
}

// clientOf returns the client that the environment says.
func clientOf(environ func(string) string) Client {
	client := Client{URL: environ("WINDWARD_REDIS_URL"), Prefix: environ("WINDWARD_PREFIX"), Timeout: 5 * time.Second}
	if client.URL == "" {
		client.URL = "redis://127.0.0.1:6379/0"
	}
	if client.Prefix == "" {
		client.Prefix = "windward"
	}
	if seconds, err := strconv.ParseFloat(environ("WINDWARD_TIMEOUT"), 64); err == nil {
		client.Timeout = time.Duration(seconds * float64(time.Second))
	}
	return client
}
