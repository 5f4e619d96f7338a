//! RocketMQ's Rust clients at a server: what tests/serve/matrix/scenarios.py describes.
//! Arguments: ENDPOINTS tls|plain ACCESS_KEY|- SECRET_KEY|- SCENARIO...

use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::io::stdin;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};

const PATIENCE: Duration = Duration::from_secs(60);
const INVISIBLE: Duration = Duration::from_secs(30);
const GROUPS: [&str; 2] = ["order-1", "order-2"];
const LACKS: &str = "lacks ";

type Seen = Result<String, Box<dyn Error>>;

struct Clients {
    option: ClientOption,
}

/// A simple consumer of one topic; this client names topic and filter at each receive.
struct Consumer {
    client: SimpleConsumer,
    topic: String,
    filter: FilterExpression,
}

impl Consumer {
    async fn poll(&self) -> Result<Vec<MessageView>, Box<dyn Error>> {
        Ok(self.client.receive_with(&self.topic, &self.filter, 32, INVISIBLE).await?)
    }

    /// So many messages, acknowledged, in the order in which they came.
    async fn receive(&self, count: usize) -> Result<Vec<MessageView>, Box<dyn Error>> {
        let mut found = Vec::new();
        let begun = Instant::now();
        while found.len() < count {
            if begun.elapsed() > PATIENCE {
                return Err(format!("only {} came in {PATIENCE:?}", bodies(&found)).into());
            }
            for view in self.poll().await? {
                self.client.ack(&view).await?;
                found.push(view);
            }
        }
        Ok(found)
    }
}

impl Clients {
    async fn producer(&self, topic: &str) -> Result<Producer, Box<dyn Error>> {
        let mut option = ProducerOption::default();
        option.set_topics(vec![topic]);
        let mut made = Producer::new(option, self.option.clone())?;
        made.start().await?;
        Ok(made)
    }

    async fn simple(&self, group: &str, topic: &str, filter: FilterExpression) -> Result<Consumer, Box<dyn Error>> {
        let mut option = SimpleConsumerOption::default();
        option.set_topics(vec![topic]);
        option.set_consumer_group(group);
        let mut client = SimpleConsumer::new(option, self.option.clone())?;
        client.start().await?;
        Ok(Consumer { client, topic: topic.to_string(), filter })
    }

    async fn normal(&self) -> Seen {
        let sender = self.producer("orders").await?;
        let consumer = self.simple("billing", "orders", all()).await?;
        let made = message("orders", "plain").set_tag("new").set_keys(vec!["order-7"]).set_properties(
            [("region", "north")].map(|(name, value)| (name.to_string(), value.to_string())).into(),
        );
        let receipt = sender.send(made.build()?).await?;
        let views = consumer.receive(1).await?;
        let view = &views[0];
        let properties: Vec<String> = view.properties().iter().map(|(name, value)| format!("{name}={value}")).collect();
        Ok(format!(
            "{} {} [{}] {{{}}} attempt {} {}",
            text(view),
            view.tag().unwrap_or(""),
            view.keys().join(","),
            properties.join(", "),
            view.delivery_attempt(),
            if view.message_id() == receipt.message_id() { "same id" } else { "other id" },
        ))
    }

    async fn refused(&self) -> Seen {
        let result = async {
            let sender = self.producer("orders").await?;
            sender.send(message("orders", "never").build()?).await?;
            Ok::<(), Box<dyn Error>>(())
        };
        match result.await {
            Ok(()) => Ok("accepted".to_string()),
            Err(error) => Ok(format!("refused: {error} {error:?}")),
        }
    }

    async fn fifo(&self) -> Seen {
        let sender = self.producer("steps").await?;
        let consumer = self.simple("sorted", "steps", all()).await?;
        send_steps(&sender, "steps", 0, 5).await?;
        Ok(in_groups(&consumer.receive(10).await?))
    }

    async fn delay(&self) -> Seen {
        let sender = self.producer("later").await?;
        let consumer = self.simple("late", "later", all()).await?;
        let due_s = now_s() + 2;
        sender.send(message("later", "later").set_delivery_timestamp(due_s).build()?).await?;
        let views = consumer.receive(1).await?;
        Ok(format!("{} {}", bodies(&views), if now_s() >= due_s - 1 { "in time" } else { "early" }))
    }

    async fn transaction(&self) -> Seen {
        let (asked, arrivals): (Sender<String>, Receiver<String>) = channel();
        let asked = Mutex::new(asked);
        let mut option = ProducerOption::default();
        option.set_topics(vec!["payments"]);
        let checker = move |_: String, view: MessageView| {
            asked.lock().unwrap().send(text(&view)).unwrap();
            TransactionResolution::COMMIT
        };
        let mut sender = Producer::new_transaction_producer(option, self.option.clone(), Box::new(checker))?;
        sender.start().await?;
        let consumer = self.simple("ledger", "payments", all()).await?;
        let begin = |body: &'static str| {
            MessageBuilder::transaction_message_builder("payments", body.as_bytes().to_vec()).build()
        };
        sender.send_transaction_message(begin("committed")?).await?.commit().await?;
        sender.send_transaction_message(begin("rolled back")?).await?.rollback().await?;
        let _left = sender.send_transaction_message(begin("left")?).await?;
        let first = tokio::task::spawn_blocking(move || arrivals.recv_timeout(PATIENCE)).await??;
        Ok(format!("asked {first}, received {}", bodies(&consumer.receive(2).await?)))
    }

    async fn filtered(&self, topic: &str, group: &str, filter: FilterExpression) -> Seen {
        let sender = self.producer(topic).await?;
        let consumer = self.simple(group, topic, filter).await?;
        for (at, tag) in ["a", "b", "c"].into_iter().enumerate() {
            let properties = [("size".to_string(), (at + 1).to_string())].into();
            sender.send(message(topic, tag).set_tag(tag).set_properties(properties).build()?).await?;
        }
        Ok(bodies(&consumer.receive(2).await?))
    }

    async fn restart(&self) -> Seen {
        let sender = self.producer("steady").await?;
        let consumer = self.simple("steadfast", "steady", all()).await?;
        send_steps(&sender, "steady", 0, 10).await?;
        let mut found = consumer.receive(8).await?;
        ask("restart\tserver")?;
        send_steps(&sender, "steady", 10, 20).await?;
        let mut seen: HashSet<String> = found.iter().map(text).collect();
        let begun = Instant::now();
        while seen.len() < 40 && begun.elapsed() < PATIENCE {
            let Ok(views) = consumer.poll().await else {
                tokio::time::sleep(Duration::from_millis(200)).await;
                continue;
            };
            for view in views {
                while let Err(error) = consumer.client.ack(&view).await {
                    if begun.elapsed() > PATIENCE {
                        return Err(error.into());
                    }
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                seen.insert(text(&view));
                found.push(view);
            }
        }
        Ok(in_groups(&found))
    }

    async fn run(&self, name: &str) -> Seen {
        match name {
            "normal" | "accepted" => self.normal().await,
            "refused" => self.refused().await,
            "fifo" => self.fifo().await,
            "delay" => self.delay().await,
            "transaction" => self.transaction().await,
            "tag" => self.filtered("tagged", "taggers", FilterExpression::new(FilterType::Tag, "a || b")).await,
            "sql" => self.filtered("sized", "sizers", FilterExpression::new(FilterType::Sql, "size > 1")).await,
            "restart" => self.restart().await,
            "recall" => Err(format!("{LACKS}recall").into()),
            "renew" => Err(format!("{LACKS}change of the invisible time").into()),
            "push" | "order" | "dead" => Err(format!("{LACKS}push consumers").into()),
            _ => Err(format!("no scenario {name}").into()),
        }
    }
}

async fn send_steps(sender: &Producer, topic: &str, begin: usize, end: usize) -> Result<(), Box<dyn Error>> {
    for number in begin..end {
        for group in GROUPS {
            let begun = Instant::now();
            // A client waits a while before it dials a server again that was away.
            loop {
                let made = message(topic, &format!("{group} {number}")).set_message_group(group).build()?;
                match sender.send(made).await {
                    Ok(_) => break,
                    Err(error) if begun.elapsed() > PATIENCE => return Err(error.into()),
                    Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
                }
            }
        }
    }
    Ok(())
}

fn message(topic: &str, body: &str) -> MessageBuilder {
    MessageBuilder::builder().set_topic(topic).set_body(body.as_bytes().to_vec())
}

fn all() -> FilterExpression {
    FilterExpression::new(FilterType::Tag, "*")
}

fn text(view: &MessageView) -> String {
    String::from_utf8_lossy(view.body()).into_owned()
}

fn bodies(views: &[MessageView]) -> String {
    let mut found: Vec<String> = views.iter().map(text).collect();
    found.sort();
    found.join(" ")
}

/// For each message group the numbers in the order in which they came, each at its first time.
fn in_groups(views: &[MessageView]) -> String {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for view in views {
        let body = text(view);
        let (group, number) = body.split_once(' ').unwrap();
        let numbers = found.entry(group.to_string()).or_default();
        if !numbers.iter().any(|each| each == number) {
            numbers.push(number.to_string());
        }
    }
    let lines: Vec<String> = found.iter().map(|(group, numbers)| format!("{group}: {}", numbers.join(" "))).collect();
    lines.join(", ")
}

fn now_s() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// Ask the other side for something, and wait until it is done.
fn ask(words: &str) -> Result<(), Box<dyn Error>> {
    println!("{words}");
    stdin().read_line(&mut String::new())?;
    Ok(())
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut option = ClientOption::default();
    option.set_access_url(&arguments[0]);
    option.set_enable_tls(arguments[1] == "tls");
    option.set_timeout(Duration::from_secs(30));
    option.set_long_polling_timeout(Duration::from_secs(20));
    if arguments[2] != "-" {
        option.set_access_key(&arguments[2]);
        option.set_secret_key(&arguments[3]);
    }
    let clients = Clients { option };
    for name in &arguments[4..] {
        let line = match clients.run(name).await {
            Ok(text) => format!("saw\t{name}\t{text}"),
            Err(error) => match error.to_string().strip_prefix(LACKS) {
                Some(what) => format!("lacks\t{name}\t{what}"),
                None => format!("failed\t{name}\t{error:?}"),
            },
        };
        println!("{}", line.replace('\n', " "));
    }
}
