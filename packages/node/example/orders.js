// Takes orders: each is an entity, and a message for the warehouse, which ships each order once.

import { RestError, TableClient } from "@azure/data-tables";
import { QueueClient } from "@azure/storage-queue";

/** The storage account is throttled. Nothing is lost if the customer tries again later. */
export class Busy extends Error {}

/** Another order has this number. */
export class NumberTaken extends Error {}

/** The orders of one account. */
export class Orders {
  #orders;
  #shipments;

  /**
   * @param {string} connectionString
   * @param {{ retries?: number }} [options] how often the Azure SDK tries again by itself
   */
  constructor(connectionString, { retries = 3 } = {}) {
    const retryOptions = { maxRetries: retries, retryDelayInMs: 10 };
    this.#orders = TableClient.fromConnectionString(connectionString, "orders", {
      allowInsecureConnection: connectionString.startsWith("DefaultEndpointsProtocol=http;"),
      retryOptions,
    });
    this.#shipments = new QueueClient(connectionString, "shipments", { retryOptions: { maxTries: retries + 1 } });
  }

  /** Creates the table and the queue. */
  async create() {
    await this.#orders.createTable();
    await this.#shipments.create();
  }

  /**
   * Stores an order. Placing the same order again has no effect but another message, which `ship` ignores.
   *
   * @param {string} customer
   * @param {string} number
   * @param {string} item
   */
  async place(customer, number, item) {
    const order = { partitionKey: customer, rowKey: number, item, state: "placed" };
    for (let attemptsLeft = 2; ; attemptsLeft -= 1) {
      try {
        await this.#orders.createEntity(order);
        break;
      } catch (error) {
        if (!(error instanceof RestError)) throw error;
        if (error.statusCode === 409) {
          // Either an earlier attempt stored it and its answer was lost, or the number is taken. An attempt of the SDK is
          // such an earlier attempt, too.
          const stored = await this.#orders.getEntity(customer, number);
          if (stored.item !== item) throw new NumberTaken(`${customer} has another order ${number}`);
          break;
        }
        if (error.statusCode === 503) throw new Busy("try again later", { cause: error });
        // Without a status there was no answer, and whether it was stored is unknown. The next attempt finds out.
        if (error.statusCode !== undefined || attemptsLeft === 0) throw error;
      }
    }
    await this.#shipments.sendMessage(`${customer}/${number}`);
  }

  /** Ships the next order, and returns its number, or `undefined` if there is nothing to do. */
  async ship() {
    const [message] = (await this.#shipments.receiveMessages({ visibilityTimeout: 30 })).receivedMessageItems;
    if (!message) return undefined;
    const [customer = "", number = ""] = message.messageText.split("/");
    const { etag, ...order } = await this.#orders.getEntity(customer, number);
    let shipped;
    if (order.state === "placed") {
      try {
        await this.#orders.updateEntity({ ...order, partitionKey: customer, rowKey: number, state: "shipped" }, "Replace", {
          etag,
        });
        shipped = number;
      } catch (error) {
        // With 412, another worker has shipped it.
        if (!(error instanceof RestError) || error.statusCode !== 412) throw error;
      }
    }
    await this.#shipments.deleteMessage(message.messageId, message.popReceipt);
    return shipped;
  }
}
