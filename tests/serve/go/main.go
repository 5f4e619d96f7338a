// RocketMQ's Go clients at a server: what tests/serve/matrix/scenarios.py describes.
// Arguments: ENDPOINTS tls|plain ACCESS_KEY|- SECRET_KEY|- SCENARIO...
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	rocketmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const (
	patience  = 60 * time.Second
	invisible = 30 * time.Second
)

var (
	arguments  = os.Args[1:]
	orders     = bufio.NewReader(os.Stdin)
	groups     = []string{"order-1", "order-2"}
	background = context.Background()
)

func say(words ...string) {
	fmt.Println(strings.ReplaceAll(strings.Join(words, "\t"), "\n", " "))
}

// ask the other side for something, and wait until it is done.
func ask(words ...string) error {
	say(words...)
	_, err := orders.ReadString('\n')
	return err
}

func config(group string) *rocketmq.Config {
	keys := &credentials.SessionCredentials{}
	if arguments[2] != "-" {
		keys.AccessKey, keys.AccessSecret = arguments[2], arguments[3]
	}
	return &rocketmq.Config{Endpoint: arguments[0], ConsumerGroup: group, Credentials: keys}
}

func producer(topic string, options ...rocketmq.ProducerOption) (rocketmq.Producer, error) {
	made, err := rocketmq.NewProducer(config(""), append(options, rocketmq.WithTopics(topic))...)
	if err != nil {
		return nil, err
	}
	return made, made.Start()
}

func simple(group, topic string, filter *rocketmq.FilterExpression) (rocketmq.SimpleConsumer, error) {
	made, err := rocketmq.NewSimpleConsumer(config(group),
		rocketmq.WithSimpleAwaitDuration(5*time.Second),
		rocketmq.WithSimpleSubscriptionExpressions(map[string]*rocketmq.FilterExpression{topic: filter}))
	if err != nil {
		return nil, err
	}
	return made, made.Start()
}

func push(group, topic string, consume func(*rocketmq.MessageView) rocketmq.ConsumerResult) error {
	made, err := rocketmq.NewPushConsumer(config(group),
		rocketmq.WithPushAwaitDuration(5*time.Second),
		rocketmq.WithPushSubscriptionExpressions(map[string]*rocketmq.FilterExpression{topic: rocketmq.SUB_ALL}),
		rocketmq.WithPushMessageListener(&rocketmq.FuncMessageListener{Consume: consume}))
	if err != nil {
		return err
	}
	return made.Start() // ends with the process: its end waits for long polls
}

// both makes a producer and a simple consumer of one topic.
func both(topic, group string, filter *rocketmq.FilterExpression, options ...rocketmq.ProducerOption) (
	rocketmq.Producer, rocketmq.SimpleConsumer, func(), error) {
	sender, err := producer(topic, options...)
	if err != nil {
		return nil, nil, nil, err
	}
	consumer, err := simple(group, topic, filter)
	if err != nil {
		return nil, nil, nil, err
	}
	return sender, consumer, func() { consumer.GracefulStop(); sender.GracefulStop() }, nil
}

func message(topic, body string) *rocketmq.Message {
	return &rocketmq.Message{Topic: topic, Body: []byte(body)}
}

func send(sender rocketmq.Producer, made *rocketmq.Message) (*rocketmq.SendReceipt, error) {
	receipts, err := sender.Send(background, made)
	if err != nil {
		return nil, err
	}
	return receipts[0], nil
}

// poll receives messages: none is no error.
func poll(consumer rocketmq.SimpleConsumer, count int32) ([]*rocketmq.MessageView, error) {
	found, err := consumer.Receive(background, count, invisible)
	if err != nil && strings.Contains(err.Error(), "MESSAGE_NOT_FOUND") {
		return nil, nil
	}
	return found, err
}

// receive so many messages, acknowledged, in the order in which they came.
func receive(consumer rocketmq.SimpleConsumer, count int) ([]*rocketmq.MessageView, error) {
	var found []*rocketmq.MessageView
	for ends := time.Now().Add(patience); len(found) < count; {
		if time.Now().After(ends) {
			return nil, fmt.Errorf("only %s came in %s", bodies(found), patience)
		}
		views, err := poll(consumer, 32)
		if err != nil {
			return nil, err
		}
		for _, view := range views {
			if err := consumer.Ack(background, view); err != nil {
				return nil, err
			}
			found = append(found, view)
		}
	}
	return found, nil
}

func bodies(views []*rocketmq.MessageView) string {
	var found []string
	for _, view := range views {
		found = append(found, string(view.GetBody()))
	}
	sort.Strings(found)
	return strings.Join(found, " ")
}

// inGroups has for each message group the numbers in the order in which they came, each at its first time.
func inGroups(views []*rocketmq.MessageView) string {
	found, seen := map[string][]string{}, map[string]bool{}
	for _, view := range views {
		body := string(view.GetBody())
		if group, number, _ := strings.Cut(body, " "); !seen[body] {
			found[group] = append(found[group], number)
			seen[body] = true
		}
	}
	var lines []string
	for _, group := range groups {
		lines = append(lines, group+": "+strings.Join(found[group], " "))
	}
	return strings.Join(lines, ", ")
}

func next[T any](arrivals chan T) (T, error) {
	select {
	case found := <-arrivals:
		return found, nil
	case <-time.After(patience):
		var none T
		return none, fmt.Errorf("nothing came in %s", patience)
	}
}

// persistently calls again: a client waits a while before it dials a server again that was away.
func persistently(call func() error) error {
	for ends := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		if err := call(); err == nil || time.Now().After(ends) {
			return err
		}
	}
}

func sendSteps(sender rocketmq.Producer, topic string, begin, end int) error {
	for number := begin; number < end; number++ {
		for _, group := range groups {
			err := persistently(func() error {
				made := message(topic, fmt.Sprintf("%s %d", group, number))
				made.SetMessageGroup(group)
				_, err := send(sender, made)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func normal() (string, error) {
	sender, consumer, end, err := both("orders", "billing", rocketmq.SUB_ALL)
	if err != nil {
		return "", err
	}
	defer end()
	made := message("orders", "plain")
	made.SetTag("new")
	made.SetKeys("order-7")
	made.AddProperty("region", "north")
	receipt, err := send(sender, made)
	if err != nil {
		return "", err
	}
	views, err := receive(consumer, 1)
	if err != nil {
		return "", err
	}
	view, id := views[0], "other id"
	if view.GetMessageId() == receipt.MessageID {
		id = "same id"
	}
	var properties []string
	for name, value := range view.GetProperties() {
		properties = append(properties, name+"="+value)
	}
	return fmt.Sprintf("%s %s [%s] {%s} attempt %d %s", view.GetBody(), *view.GetTag(),
		strings.Join(view.GetKeys(), ","), strings.Join(properties, ", "), view.GetDeliveryAttempt(), id), nil
}

func refused() (string, error) {
	sender, err := producer("orders")
	if err == nil {
		_, err = send(sender, message("orders", "never"))
	}
	if err == nil {
		return "accepted", nil
	}
	return "refused: " + err.Error(), nil
}

func fifo() (string, error) {
	sender, consumer, end, err := both("steps", "sorted", rocketmq.SUB_ALL)
	if err != nil {
		return "", err
	}
	defer end()
	if err := sendSteps(sender, "steps", 0, 5); err != nil {
		return "", err
	}
	views, err := receive(consumer, 10)
	return inGroups(views), err
}

func delay() (string, error) {
	sender, consumer, end, err := both("later", "late", rocketmq.SUB_ALL)
	if err != nil {
		return "", err
	}
	defer end()
	made, due := message("later", "later"), time.Now().Add(2*time.Second)
	made.SetDelayTimestamp(due)
	if _, err := send(sender, made); err != nil {
		return "", err
	}
	views, err := receive(consumer, 1)
	if err != nil {
		return "", err
	}
	if time.Now().After(due.Add(-time.Second)) {
		return bodies(views) + " in time", nil
	}
	return bodies(views) + " early", nil
}

func recall() (string, error) {
	sender, err := producer("later")
	if err != nil {
		return "", err
	}
	defer sender.GracefulStop()
	made := message("later", "never")
	made.SetDelayTimestamp(time.Now().Add(time.Hour))
	receipt, err := send(sender, made)
	if err != nil {
		return "", err
	}
	id, err := sender.Recall(background, "later", receipt.RecallHandle)
	if err == nil && id != receipt.MessageID {
		return "recalled another message", nil
	}
	return "recalled", err
}

func renew() (string, error) {
	sender, consumer, end, err := both("work", "workers", rocketmq.SUB_ALL)
	if err != nil {
		return "", err
	}
	defer end()
	if _, err := send(sender, message("work", "work")); err != nil {
		return "", err
	}
	var attempts []string
	for ends := time.Now().Add(patience); len(attempts) < 2 && time.Now().Before(ends); {
		views, err := poll(consumer, 1)
		if err != nil {
			return "", err
		}
		for _, view := range views {
			attempts = append(attempts, fmt.Sprint(view.GetDeliveryAttempt()))
			if len(attempts) == 1 {
				err = consumer.ChangeInvisibleDuration(view, time.Second)
			} else {
				err = consumer.Ack(background, view)
			}
			if err != nil {
				return "", err
			}
		}
	}
	return "attempts [" + strings.Join(attempts, ", ") + "]", nil
}

func pushAll() (string, error) {
	consumed := make(chan string, 100)
	err := push("jobbers", "jobs", func(view *rocketmq.MessageView) rocketmq.ConsumerResult {
		consumed <- string(view.GetBody())
		return rocketmq.SUCCESS
	})
	if err != nil {
		return "", err
	}
	sender, err := producer("jobs")
	if err != nil {
		return "", err
	}
	defer sender.GracefulStop()
	found := map[string]bool{}
	for number := 0; number < 10; number++ {
		if _, err := send(sender, message("jobs", fmt.Sprint(number))); err != nil {
			return "", err
		}
	}
	for number := 0; number < 10; number++ {
		body, err := next(consumed)
		if err != nil {
			return "", err
		}
		found[body] = true
	}
	return fmt.Sprintf("%d consumed", len(found)), nil
}

func order() (string, error) {
	sender, err := producer("line")
	if err != nil {
		return "", err
	}
	defer sender.GracefulStop()
	for _, body := range []string{"a", "fails", "b", "c"} {
		made := message("line", body)
		made.SetMessageGroup("order-7")
		if _, err := send(sender, made); err != nil {
			return "", err
		}
	}
	consumed := make(chan string, 100)
	err = push("orderly", "line", func(view *rocketmq.MessageView) rocketmq.ConsumerResult {
		consumed <- string(view.GetBody())
		if string(view.GetBody()) == "fails" {
			return rocketmq.FAILURE
		}
		return rocketmq.SUCCESS
	})
	if err != nil {
		return "", err
	}
	var seen []string
	for len(seen) == 0 || seen[len(seen)-1] != "c" {
		body, err := next(consumed)
		if err != nil {
			return "", err
		}
		seen = append(seen, body)
	}
	return strings.Join(seen, " "), nil
}

func transaction() (string, error) {
	asked := make(chan string, 100)
	checker := rocketmq.WithTransactionChecker(&rocketmq.TransactionChecker{
		Check: func(view *rocketmq.MessageView) rocketmq.TransactionResolution {
			asked <- string(view.GetBody())
			return rocketmq.COMMIT
		},
	})
	sender, consumer, end, err := both("payments", "ledger", rocketmq.SUB_ALL, checker)
	if err != nil {
		return "", err
	}
	defer end()
	for _, body := range []string{"committed", "rolled back", "left"} {
		begun := sender.BeginTransaction()
		if _, err := sender.SendWithTransaction(background, message("payments", body), begun); err != nil {
			return "", err
		}
		switch body {
		case "committed":
			err = begun.Commit()
		case "rolled back":
			err = begun.RollBack()
		}
		if err != nil {
			return "", err
		}
	}
	first, err := next(asked)
	if err != nil {
		return "", err
	}
	views, err := receive(consumer, 2)
	return fmt.Sprintf("asked %s, received %s", first, bodies(views)), err
}

func dead() (string, error) {
	attempts := make(chan int32, 100)
	err := push("hopeless", "poison", func(view *rocketmq.MessageView) rocketmq.ConsumerResult {
		attempts <- view.GetDeliveryAttempt()
		return rocketmq.FAILURE
	})
	if err != nil {
		return "", err
	}
	sender, err := producer("poison")
	if err != nil {
		return "", err
	}
	defer sender.GracefulStop()
	if _, err := send(sender, message("poison", "poison")); err != nil {
		return "", err
	}
	var seen []string
	for last := int32(0); last < 2; {
		if last, err = next(attempts); err != nil {
			return "", err
		}
		seen = append(seen, fmt.Sprint(last))
	}
	return "attempts [" + strings.Join(seen, ", ") + "]", ask("dead", "hopeless")
}

func filtered(topic, group string, filter *rocketmq.FilterExpression) (string, error) {
	sender, consumer, end, err := both(topic, group, filter)
	if err != nil {
		return "", err
	}
	defer end()
	for at, tag := range []string{"a", "b", "c"} {
		made := message(topic, tag)
		made.SetTag(tag)
		made.AddProperty("size", fmt.Sprint(at+1))
		if _, err := send(sender, made); err != nil {
			return "", err
		}
	}
	views, err := receive(consumer, 2)
	return bodies(views), err
}

func restart() (string, error) {
	sender, consumer, end, err := both("steady", "steadfast", rocketmq.SUB_ALL)
	if err != nil {
		return "", err
	}
	defer end()
	if err := sendSteps(sender, "steady", 0, 10); err != nil {
		return "", err
	}
	found, err := receive(consumer, 8)
	if err != nil {
		return "", err
	}
	if err := ask("restart", "server"); err != nil {
		return "", err
	}
	if err := sendSteps(sender, "steady", 10, 20); err != nil {
		return "", err
	}
	seen := map[string]bool{}
	for _, view := range found {
		seen[string(view.GetBody())] = true
	}
	for ends := time.Now().Add(patience); len(seen) < 40 && time.Now().Before(ends); {
		err := persistently(func() error {
			views, err := poll(consumer, 32)
			for _, view := range views {
				if err := persistently(func() error { return consumer.Ack(background, view) }); err != nil {
					return err
				}
				found = append(found, view)
				seen[string(view.GetBody())] = true
			}
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return inGroups(found), nil
}

var scenarios = map[string]func() (string, error){
	"normal": normal, "accepted": normal, "refused": refused, "fifo": fifo, "delay": delay, "recall": recall,
	"renew": renew, "push": pushAll, "order": order, "transaction": transaction, "dead": dead, "restart": restart,
	"tag": func() (string, error) {
		return filtered("tagged", "taggers", rocketmq.NewFilterExpression("a || b"))
	},
	"sql": func() (string, error) {
		return filtered("sized", "sizers", rocketmq.NewFilterExpressionWithType("size > 1", rocketmq.SQL92))
	},
}

func main() {
	rocketmq.EnableSsl = arguments[1] == "tls"
	for _, name := range arguments[4:] {
		if text, err := scenarios[name](); err != nil {
			say("failed", name, err.Error())
		} else {
			say("saw", name, text)
		}
	}
}
